-- Amounts are decimal digits of yocto; times are ns since the epoch; hashes of
-- files are lower-case hex.
CREATE TABLE meta (
	name  TEXT COLLATE "C" PRIMARY KEY,
	value TEXT COLLATE "C" NOT NULL
);

CREATE TABLE accounts (
	id             TEXT COLLATE "C" PRIMARY KEY,
	key_hash       BYTEA NOT NULL, -- SHA-256 of the API key
	key_generation BIGINT NOT NULL,
	balance        TEXT COLLATE "C" NOT NULL,
	created_ns     BIGINT NOT NULL
);

CREATE TABLE groups (
	id             TEXT COLLATE "C" PRIMARY KEY,
	owner          TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
	joinable       BOOLEAN NOT NULL,
	join_expires   BIGINT,          -- ns; NULL = window closed
	join_max_uses  BIGINT,          -- NULL = unlimited
	join_uses      BIGINT NOT NULL DEFAULT 0,
	retention_days BIGINT,          -- NULL = forever
	key_version    BIGINT NOT NULL
);

CREATE TABLE members (
	group_id TEXT COLLATE "C" NOT NULL REFERENCES groups (id),
	account  TEXT COLLATE "C" NOT NULL,
	since    BIGINT NOT NULL, -- ledger sequence
	PRIMARY KEY (group_id, account)
);
CREATE INDEX members_by_account ON members (account, group_id);

CREATE TABLE uploads (
	id          TEXT COLLATE "C" PRIMARY KEY,
	account     TEXT COLLATE "C" NOT NULL,
	group_id    TEXT COLLATE "C" NOT NULL,
	ref         TEXT COLLATE "C" NOT NULL,
	filename    TEXT COLLATE "C" NOT NULL,
	key_version BIGINT NOT NULL,
	wrapped_key BYTEA,           -- NULL once the file owns it
	blob_id     TEXT COLLATE "C",           -- of a raw transfer
	blob_size   BIGINT,
	blob_sum    BYTEA,
	result      TEXT COLLATE "C",           -- answer of the finalize, JSON
	expires_ns  BIGINT NOT NULL
);
CREATE INDEX uploads_by_expiry ON uploads (expires_ns);

CREATE TABLE files (
	ref           TEXT COLLATE "C" PRIMARY KEY,
	group_id      TEXT COLLATE "C" NOT NULL REFERENCES groups (id),
	seq           BIGINT NOT NULL, -- of the upload
	changed_seq   BIGINT NOT NULL, -- of the newest record about the file
	tx_id         TEXT COLLATE "C" NOT NULL,
	uploader      TEXT COLLATE "C" NOT NULL,
	file_hash     TEXT COLLATE "C" NOT NULL,
	time_ns       BIGINT NOT NULL,
	filename      TEXT COLLATE "C" NOT NULL,
	original_size BIGINT,
	content_type  TEXT COLLATE "C" NOT NULL,
	format        TEXT COLLATE "C" NOT NULL,    -- as it was sent; 'null' when none was
	blob_id       TEXT COLLATE "C" NOT NULL UNIQUE,
	blob_size     BIGINT NOT NULL,
	blob_sum      BYTEA NOT NULL,
	key_version   BIGINT NOT NULL,
	wrapped_key   BYTEA,             -- NULL once destroyed
	deleted_ns    BIGINT,
	deleted_by    TEXT COLLATE "C",
	deleted_why   TEXT COLLATE "C"
);
CREATE INDEX files_by_group ON files (group_id, seq);
CREATE INDEX files_by_change ON files (group_id, changed_seq);

CREATE TABLE claims (
	account  TEXT COLLATE "C" NOT NULL,
	claim_id TEXT COLLATE "C" NOT NULL,
	ref      TEXT COLLATE "C" NOT NULL,
	time_ns  BIGINT NOT NULL,
	PRIMARY KEY (account, claim_id, ref)
);
CREATE INDEX claims_by_time ON claims (time_ns);

CREATE TABLE ledger (
	seq       BIGINT PRIMARY KEY,
	tx_id     TEXT COLLATE "C" NOT NULL UNIQUE,
	kind      TEXT COLLATE "C" NOT NULL,
	time_ns   BIGINT NOT NULL,
	account   TEXT COLLATE "C" NOT NULL,
	group_id  TEXT COLLATE "C" NOT NULL,
	ref       TEXT COLLATE "C" NOT NULL,
	file_hash TEXT COLLATE "C" NOT NULL,
	detail    TEXT COLLATE "C" NOT NULL,
	fee       TEXT COLLATE "C" NOT NULL,
	request   TEXT COLLATE "C" NOT NULL,
	prev_hash BYTEA NOT NULL,
	hash      BYTEA NOT NULL
);
CREATE INDEX ledger_by_group ON ledger (group_id, seq);

-- The ledger is append-only.
CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the ledger is append-only';
END $$;
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
