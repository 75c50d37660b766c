-- Who was revoked from a group does not come back by its open door.
CREATE TABLE revoked (
	group_id TEXT NOT NULL REFERENCES groups (id),
	account  TEXT NOT NULL,
	PRIMARY KEY (group_id, account)
) STRICT, WITHOUT ROWID;

INSERT INTO revoked (group_id, account) SELECT DISTINCT group_id, detail FROM ledger WHERE kind = 'revoke_group_member'
	AND NOT EXISTS (SELECT 1 FROM members WHERE members.group_id = ledger.group_id AND members.account = ledger.detail);
