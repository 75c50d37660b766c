-- Disabling an account keeps what it removed until the owner of the group decides; it
-- once did not.
UPDATE files SET trash_until_ns = NULL WHERE trash_until_ns IS NOT NULL AND EXISTS (SELECT 1 FROM ledger
    WHERE ledger.kind IN ('disable_account', 'enable_account') AND ledger.account = files.trash_by AND ledger.seq > files.changed_seq);
