-- Who was revoked from which group: nobody joins again by himself, and watch
-- tells him.
CREATE INDEX ledger_revocations ON ledger (detail, group_id, seq) WHERE kind = 'revoke_group_member';
