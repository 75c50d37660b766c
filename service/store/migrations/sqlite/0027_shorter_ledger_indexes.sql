-- A save changes few pages. The index of ids is written for many records at once: an id is a hash,
-- so that each has a page of its own. The chain of a group and its retrievals are in an index each.
DROP TRIGGER ledger_no_update;
DROP TRIGGER ledger_no_delete;
CREATE TABLE new_ledger (
	seq       INTEGER PRIMARY KEY,
	tx_id     TEXT NOT NULL,
	kind      TEXT NOT NULL,
	time_ns   INTEGER NOT NULL,
	account   TEXT NOT NULL,
	group_id  TEXT NOT NULL,
	ref       TEXT NOT NULL,
	file_hash TEXT NOT NULL,
	detail    TEXT NOT NULL,
	fee       TEXT NOT NULL,
	request   TEXT NOT NULL,
	prev_hash BLOB NOT NULL,
	hash      BLOB NOT NULL,
	chain     TEXT NOT NULL DEFAULT '',
	number    INTEGER NOT NULL DEFAULT 0,
	tags      TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO new_ledger SELECT seq, tx_id, kind, time_ns, account, group_id, ref, file_hash, detail, fee, request, prev_hash, hash, chain, number, tags FROM ledger ORDER BY seq;
DROP TABLE ledger;
ALTER TABLE new_ledger RENAME TO ledger;

CREATE INDEX ledger_by_account ON ledger (account, seq);
CREATE INDEX ledger_by_chain ON ledger (group_id, seq) WHERE kind <> 'claim_token';
CREATE INDEX ledger_claims ON ledger (group_id, seq) WHERE kind = 'claim_token';
CREATE INDEX ledger_revocations ON ledger (detail, group_id, seq) WHERE kind = 'revoke_group_member';
CREATE INDEX ledger_folders ON ledger (group_id, seq) WHERE kind = 'rename_folder';

-- The ledger is append-only.
CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- The beginnings of the ids of all records up to the last sequence that 2048 divides.
CREATE TABLE record_ids (
	beginning TEXT NOT NULL,
	seq       INTEGER NOT NULL,
	PRIMARY KEY (beginning, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO record_ids SELECT substr(tx_id, 1, 10), seq FROM ledger WHERE seq <= (SELECT max(seq) / 2048 * 2048 FROM ledger) ORDER BY 1;
CREATE TRIGGER ledger_ids AFTER INSERT ON ledger WHEN NEW.seq % 2048 = 0 BEGIN
	INSERT INTO record_ids SELECT substr(tx_id, 1, 10), seq FROM ledger WHERE seq > NEW.seq - 2048 AND seq <= NEW.seq ORDER BY 1;
END;
