-- Amounts are decimal digits of yocto; times are ns since the epoch; hashes of
-- files are lower-case hex.
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE accounts (
	id             TEXT PRIMARY KEY,
	key_hash       BLOB NOT NULL, -- SHA-256 of the API key
	key_generation INTEGER NOT NULL,
	balance        TEXT NOT NULL,
	created_ns     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE groups (
	id             TEXT PRIMARY KEY,
	owner          TEXT NOT NULL REFERENCES accounts (id),
	joinable       INTEGER NOT NULL,
	join_expires   INTEGER,          -- ns; NULL = window closed
	join_max_uses  INTEGER,          -- NULL = unlimited
	join_uses      INTEGER NOT NULL DEFAULT 0,
	retention_days INTEGER,          -- NULL = forever
	key_version    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
	group_id TEXT NOT NULL REFERENCES groups (id),
	account  TEXT NOT NULL,
	since    INTEGER NOT NULL, -- ledger sequence
	PRIMARY KEY (group_id, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_account ON members (account, group_id);

CREATE TABLE uploads (
	id          TEXT PRIMARY KEY,
	account     TEXT NOT NULL,
	group_id    TEXT NOT NULL,
	ref         TEXT NOT NULL,
	filename    TEXT NOT NULL,
	key_version INTEGER NOT NULL,
	wrapped_key BLOB,           -- NULL once the file owns it
	blob_id     TEXT,           -- of a raw transfer
	blob_size   INTEGER,
	blob_sum    BLOB,
	result      TEXT,           -- answer of the finalize, JSON
	expires_ns  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX uploads_by_expiry ON uploads (expires_ns);

CREATE TABLE files (
	ref           TEXT PRIMARY KEY,
	group_id      TEXT NOT NULL REFERENCES groups (id),
	seq           INTEGER NOT NULL, -- of the upload
	changed_seq   INTEGER NOT NULL, -- of the newest record about the file
	tx_id         TEXT NOT NULL,
	uploader      TEXT NOT NULL,
	file_hash     TEXT NOT NULL,
	time_ns       INTEGER NOT NULL,
	filename      TEXT NOT NULL,
	original_size INTEGER,
	content_type  TEXT NOT NULL,
	format        TEXT NOT NULL,    -- as it was sent; 'null' when none was
	blob_id       TEXT NOT NULL UNIQUE,
	blob_size     INTEGER NOT NULL,
	blob_sum      BLOB NOT NULL,
	key_version   INTEGER NOT NULL,
	wrapped_key   BLOB,             -- NULL once destroyed
	deleted_ns    INTEGER,
	deleted_by    TEXT,
	deleted_why   TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX files_by_group ON files (group_id, seq);
CREATE INDEX files_by_change ON files (group_id, changed_seq);

CREATE TABLE claims (
	account  TEXT NOT NULL,
	claim_id TEXT NOT NULL,
	ref      TEXT NOT NULL,
	time_ns  INTEGER NOT NULL,
	PRIMARY KEY (account, claim_id, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_by_time ON claims (time_ns);

CREATE TABLE ledger (
	seq       INTEGER PRIMARY KEY,
	tx_id     TEXT NOT NULL UNIQUE,
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
	hash      BLOB NOT NULL
) STRICT;
CREATE INDEX ledger_by_group ON ledger (group_id, seq);

-- The ledger is append-only.
CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
