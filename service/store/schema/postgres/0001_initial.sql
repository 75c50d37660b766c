-- sqlite/0001_initial.sql says what tables and columns are for; here stands only what differs. Text has the
-- collation "C", so that it is compared by bytes, as in SQLite.

-- The service

CREATE TABLE meta (
	name  TEXT COLLATE "C" PRIMARY KEY,
	value TEXT COLLATE "C" NOT NULL
);

-- Space that is given up when the server's disk is full, so that records of reading and removing still find
-- room.
CREATE UNLOGGED TABLE held_back (filler CHAR(400) NOT NULL);

CREATE TABLE leases (
	name     TEXT COLLATE "C" PRIMARY KEY,
	holder   TEXT COLLATE "C" NOT NULL,
	until_ns BIGINT NOT NULL,
	fence    BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE service_keys (
	purpose TEXT COLLATE "C" NOT NULL,
	version BIGINT NOT NULL,
	master  TEXT COLLATE "C" NOT NULL,
	wrapped BYTEA NOT NULL,
	made_ns BIGINT NOT NULL DEFAULT 0,
	PRIMARY KEY (purpose, version, master)
);

-- Accounts

CREATE TABLE accounts (
	id             TEXT COLLATE "C" PRIMARY KEY,
	credential     BYTEA NOT NULL,
	key_generation BIGINT NOT NULL,
	balance        TEXT COLLATE "C" NOT NULL,
	created_ns     BIGINT NOT NULL,
	disabled_ns    BIGINT,
	deleted_ns     BIGINT
);

CREATE TABLE free_changes (
	account TEXT COLLATE "C" NOT NULL,
	scope   TEXT COLLATE "C" NOT NULL,
	day     BIGINT NOT NULL,
	made    BIGINT NOT NULL,
	PRIMARY KEY (account, scope)
);

CREATE TABLE identities (
	issuer  TEXT COLLATE "C" NOT NULL,
	subject TEXT COLLATE "C" NOT NULL,
	account TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
	PRIMARY KEY (issuer, subject)
);

CREATE TABLE sign_in_links (
	hash       BYTEA PRIMARY KEY,
	account    TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
	expires_ns BIGINT NOT NULL
);

CREATE TABLE web_sessions (
	hash       BYTEA PRIMARY KEY,
	account    TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
	created_ns BIGINT NOT NULL,
	expires_ns BIGINT NOT NULL
);

CREATE TABLE invites (
	id         TEXT COLLATE "C" PRIMARY KEY,
	hash       BYTEA NOT NULL,
	account    TEXT COLLATE "C" NOT NULL,
	balance    TEXT NOT NULL,
	expires_ns BIGINT NOT NULL
);

-- Groups

CREATE TABLE groups (
	id                   TEXT COLLATE "C" PRIMARY KEY,
	owner                TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
	key_version          BIGINT NOT NULL,
	format               BIGINT NOT NULL DEFAULT 2,
	appends              TEXT COLLATE "C" NOT NULL DEFAULT 'apart',
	keys                 TEXT COLLATE "C" NOT NULL DEFAULT 'any',
	joinable             BOOLEAN NOT NULL,
	join_expires         BIGINT,
	join_max_uses        BIGINT,
	join_uses            BIGINT NOT NULL DEFAULT 0,
	join_role            TEXT COLLATE "C" NOT NULL DEFAULT 'writer',
	trash_days           BIGINT NOT NULL DEFAULT 30,
	trash_who            TEXT COLLATE "C" NOT NULL DEFAULT 'uploader',
	retention_days       BIGINT,
	pending_retention    BIGINT,
	pending_retention_ns BIGINT,
	versions             TEXT COLLATE "C" NOT NULL DEFAULT 'all',
	pending_versions     TEXT COLLATE "C",
	pending_versions_ns  BIGINT,
	thinned_seq          BIGINT NOT NULL DEFAULT 0,
	thinned_file         BIGINT NOT NULL DEFAULT 0,
	list_key             BIGINT,
	offer_to             TEXT COLLATE "C",
	offer_from_ns        BIGINT,
	offer_until_ns       BIGINT,
	pending_end_ns       BIGINT,
	ended_ns             BIGINT
);
CREATE INDEX groups_thinned ON groups (id) WHERE versions <> 'all';
CREATE INDEX groups_with_window ON groups (id) WHERE retention_days IS NOT NULL;
CREATE INDEX groups_ended ON groups (id) WHERE ended_ns IS NOT NULL;

CREATE TABLE group_invites (
	id         TEXT COLLATE "C" PRIMARY KEY,
	hash       BYTEA NOT NULL,
	group_id   TEXT COLLATE "C" NOT NULL REFERENCES groups (id),
	role       TEXT NOT NULL,
	expires_ns BIGINT NOT NULL
);
CREATE INDEX group_invites_by_group ON group_invites (group_id);

CREATE TABLE members (
	group_id TEXT COLLATE "C" NOT NULL REFERENCES groups (id),
	account  TEXT COLLATE "C" NOT NULL,
	since    BIGINT NOT NULL,
	role     TEXT COLLATE "C" NOT NULL DEFAULT 'writer',
	PRIMARY KEY (group_id, account)
);
CREATE INDEX members_by_account ON members (account, group_id);

-- Files

CREATE TABLE files (
	ref            TEXT COLLATE "C" PRIMARY KEY,
	group_id       TEXT COLLATE "C" NOT NULL REFERENCES groups (id),
	seq            BIGINT NOT NULL,
	changed_seq    BIGINT NOT NULL,
	named_seq      BIGINT NOT NULL,
	tx_id          TEXT COLLATE "C" NOT NULL,
	uploader       TEXT COLLATE "C" NOT NULL,
	time_ns        BIGINT NOT NULL,
	filename       TEXT COLLATE "C" NOT NULL,
	file_hash      TEXT COLLATE "C" NOT NULL,
	content        TEXT COLLATE "C" NOT NULL DEFAULT '',
	versioned      BOOLEAN NOT NULL DEFAULT FALSE,
	backend        TEXT COLLATE "C" NOT NULL DEFAULT 'FastFS',
	blob_id        TEXT COLLATE "C" NOT NULL,
	blob_size      BIGINT NOT NULL,
	blob_sum       BYTEA NOT NULL,
	key_version    BIGINT NOT NULL,
	key_id         BIGINT,
	deleted_ns     BIGINT,
	deleted_by     TEXT COLLATE "C",
	deleted_why    TEXT COLLATE "C",
	trash_ns       BIGINT,
	trash_by       TEXT COLLATE "C",
	trash_until_ns BIGINT,
	content_type   TEXT COLLATE "C" NOT NULL,
	format         TEXT COLLATE "C" NOT NULL,
	attributes     TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX files_by_blob ON files (blob_id) WHERE substr(blob_id, 1, 4) <> 'row:';
CREATE INDEX files_by_group ON files (group_id, seq);
CREATE INDEX files_by_age ON files (group_id, time_ns) WHERE deleted_ns IS NULL AND backend = 'FastFS';
CREATE INDEX files_by_change ON files (group_id, changed_seq, seq);
CREATE INDEX files_by_name ON files (group_id, substr(filename, 1, 200), seq, versioned) WHERE deleted_ns IS NULL;
CREATE INDEX files_in_trash ON files (group_id, trash_by) WHERE trash_ns IS NOT NULL;
CREATE INDEX files_in_trash_by_seq ON files (group_id, seq) WHERE trash_ns IS NOT NULL;
CREATE INDEX files_by_trash_end ON files (trash_until_ns) WHERE trash_until_ns IS NOT NULL;

CREATE TABLE folders (
	ref      TEXT COLLATE "C" PRIMARY KEY,
	group_id TEXT COLLATE "C" NOT NULL REFERENCES groups (id),
	account  TEXT COLLATE "C" NOT NULL,
	seq      BIGINT NOT NULL,
	time_ns  BIGINT NOT NULL,
	path     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX folders_by_path ON folders (group_id, substr(path, 1, 200));
CREATE INDEX folders_by_account ON folders (group_id, account);

CREATE TABLE file_keys (
	id          BIGINT PRIMARY KEY,
	wrapped_key BYTEA NOT NULL,
	free        BOOLEAN NOT NULL
);
CREATE INDEX file_keys_free ON file_keys (id) WHERE free;
-- Two writes at the same time get different rows: who asks has the lock of the free row, and others pass it over.
CREATE VIEW free_file_keys AS SELECT id FROM file_keys WHERE free FOR UPDATE SKIP LOCKED;
CREATE SEQUENCE file_key_ids;
CREATE VIEW next_file_keys AS SELECT nextval('file_key_ids') AS id;

CREATE TABLE openings (
	seq    BIGINT PRIMARY KEY,
	sealed BYTEA NOT NULL
);

-- free is for SQLite, where rows are overwritten. Here they are removed, and only the destruction of the key
-- counts. Those that are free in an archive from there stay so: a place for content depends on no other write.
CREATE TABLE small_contents (
	id   BIGINT PRIMARY KEY,
	size BIGINT NOT NULL,
	free BOOLEAN NOT NULL,
	data BYTEA NOT NULL
);
CREATE INDEX small_contents_free ON small_contents (size) WHERE free;
CREATE VIEW free_small_contents AS SELECT id, size FROM small_contents WHERE FALSE;
CREATE SEQUENCE small_content_ids;
CREATE VIEW next_small_contents AS SELECT nextval('small_content_ids') AS id;
ALTER TABLE small_contents ALTER COLUMN data SET STORAGE EXTERNAL; -- ciphertext cannot be compressed

CREATE TABLE parts (
	id          TEXT COLLATE "C" PRIMARY KEY,
	blob_id     TEXT COLLATE "C" NOT NULL UNIQUE,
	blob_size   BIGINT NOT NULL,
	group_id    TEXT COLLATE "C" NOT NULL,
	account     TEXT COLLATE "C" NOT NULL,
	upload_id   TEXT COLLATE "C",
	block_size  BIGINT NOT NULL,
	loose       BIGINT,
	blocks      TEXT COLLATE "C" NOT NULL,
	leaves      BYTEA NOT NULL
);
CREATE INDEX parts_by_upload ON parts (upload_id, id) WHERE upload_id IS NOT NULL;
CREATE INDEX parts_loose ON parts (loose) WHERE loose IS NOT NULL;

CREATE TABLE part_uses (
	part TEXT COLLATE "C" NOT NULL REFERENCES parts (id),
	ref  TEXT COLLATE "C" NOT NULL REFERENCES files (ref),
	PRIMARY KEY (part, ref)
);
CREATE INDEX part_uses_by_ref ON part_uses (ref);

CREATE TABLE contents (
	ref        TEXT COLLATE "C" PRIMARY KEY REFERENCES files (ref),
	size       BIGINT NOT NULL,
	block_size BIGINT NOT NULL,
	manifest   BYTEA,
	tops       BYTEA NOT NULL
);

-- Uploads and retrievals

CREATE TABLE part_uploads (
	id         TEXT COLLATE "C" PRIMARY KEY,
	account    TEXT COLLATE "C" NOT NULL,
	group_id   TEXT COLLATE "C" NOT NULL,
	block_size BIGINT NOT NULL,
	began_ns   BIGINT NOT NULL,
	expires_ns BIGINT NOT NULL,
	parts      BIGINT NOT NULL,
	part_bytes BIGINT NOT NULL
);
CREATE INDEX part_uploads_by_expiry ON part_uploads (expires_ns);
CREATE INDEX part_uploads_of ON part_uploads (account);

CREATE TABLE uploads (
	id          TEXT COLLATE "C" PRIMARY KEY,
	account     TEXT COLLATE "C" NOT NULL,
	group_id    TEXT COLLATE "C" NOT NULL,
	ref         TEXT COLLATE "C" NOT NULL,
	filename    TEXT COLLATE "C" NOT NULL,
	key_version BIGINT NOT NULL,
	key_id      BIGINT,
	expires_ns  BIGINT NOT NULL,
	blob_id     TEXT COLLATE "C",
	blob_size   BIGINT,
	blob_sum    BYTEA,
	result      TEXT COLLATE "C"
);
CREATE INDEX uploads_by_expiry ON uploads (expires_ns);
CREATE INDEX uploads_open ON uploads (account) WHERE result IS NULL;

CREATE TABLE spent_uploads (
	id  BYTEA PRIMARY KEY,
	seq BIGINT NOT NULL,
	tag BYTEA
);

CREATE TABLE ended_journals (
	id    BYTEA PRIMARY KEY,
	epoch BIGINT NOT NULL
);
CREATE INDEX ended_journals_by_epoch ON ended_journals (epoch);

CREATE TABLE claims (
	account  TEXT COLLATE "C" NOT NULL,
	claim_id TEXT COLLATE "C" NOT NULL,
	ref      TEXT COLLATE "C" NOT NULL,
	time_ns  BIGINT NOT NULL,
	PRIMARY KEY (account, claim_id, ref)
);
CREATE INDEX claims_by_time ON claims (time_ns);

-- Deletions

CREATE TABLE pending_deletions (
	ref      TEXT COLLATE "C" PRIMARY KEY,
	group_id TEXT COLLATE "C" NOT NULL REFERENCES groups (id),
	account  TEXT COLLATE "C" NOT NULL,
	due_ns   BIGINT NOT NULL
);
CREATE INDEX pending_deletions_by_group ON pending_deletions (group_id, account);
CREATE INDEX pending_deletions_by_time ON pending_deletions (due_ns);

CREATE TABLE recent_deletions (
	group_id TEXT COLLATE "C" NOT NULL,
	account  TEXT COLLATE "C" NOT NULL,
	time_ns  BIGINT NOT NULL,
	ref      TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (group_id, account, time_ns, ref)
);

-- The ledger (service/LEDGER.md)

CREATE TABLE ledger (
	seq       BIGINT PRIMARY KEY,
	tx_id     TEXT COLLATE "C" NOT NULL,
	kind      TEXT COLLATE "C" NOT NULL,
	time_ns   BIGINT NOT NULL,
	account   TEXT COLLATE "C" NOT NULL,
	group_id  TEXT COLLATE "C" NOT NULL,
	ref       TEXT COLLATE "C" NOT NULL,
	file_hash TEXT COLLATE "C" NOT NULL,
	detail    TEXT COLLATE "C" NOT NULL,
	fee       TEXT COLLATE "C" NOT NULL,
	request   TEXT COLLATE "C" NOT NULL,
	chain     TEXT COLLATE "C" NOT NULL DEFAULT '',
	number    BIGINT NOT NULL DEFAULT 0,
	prev_hash BYTEA NOT NULL,
	hash      BYTEA NOT NULL,
	tags      TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX ledger_by_chain ON ledger (group_id, seq) WHERE kind <> 'claim_token';
CREATE INDEX ledger_claims ON ledger (group_id, seq) WHERE kind = 'claim_token';
CREATE INDEX ledger_by_account ON ledger (account, seq);
CREATE INDEX ledger_revocations ON ledger (detail, group_id, seq) WHERE kind = 'revoke_group_member';
CREATE INDEX ledger_folders ON ledger (group_id, seq) WHERE kind IN ('rename_folder', 'make_folder', 'remove_folder');

CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the ledger is append-only';
END $$;
CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger
	FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger
	FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

CREATE TABLE places (
	place BIGINT PRIMARY KEY,
	seq   BIGINT NOT NULL UNIQUE
);
-- A record is here from its insertion until the sequencer gives it a place.
CREATE TABLE unplaced (seq BIGINT PRIMARY KEY);
CREATE FUNCTION want_place() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO unplaced VALUES (NEW.seq);
	RETURN NULL;
END $$;
CREATE TRIGGER ledger_placed AFTER INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION want_place();
-- The one row: how many places were given, and the fence of the lease under which the last were. Who gives places
-- locks it and swaps the size, so that no two do it at once.
CREATE TABLE sequencer (
	one   BIGINT PRIMARY KEY CHECK (one = 1),
	size  BIGINT NOT NULL,
	fence BIGINT NOT NULL
);
INSERT INTO sequencer VALUES (1, 0, 0);
CREATE VIEW placed AS SELECT ledger.*, places.place FROM ledger LEFT JOIN places ON places.seq = ledger.seq;
-- + 0 keeps the server from looking for the smallest seq of some places along the index of seq.
CREATE VIEW place_bounds AS SELECT place, seq + 0 AS bound FROM places;
-- The sequence of a record is taken while its chain is locked. It may have gaps, and other records may commit in
-- another order.
CREATE SEQUENCE ledger_seq;
CREATE VIEW newest_records AS SELECT nextval('ledger_seq') - 1 AS seq,
	COALESCE((SELECT time_ns FROM ledger ORDER BY seq DESC LIMIT 1), 0) AS time_ns;

CREATE TABLE chains (
	chain   TEXT COLLATE "C" PRIMARY KEY,
	number  BIGINT NOT NULL,
	hash    BYTEA NOT NULL,
	time_ns BIGINT NOT NULL
);

-- Here the index of the ids is one, and every record is in it at once.
CREATE INDEX ledger_ids ON ledger (substr(tx_id, 1, 10));
CREATE VIEW record_ids AS SELECT substr(tx_id, 1, 10) AS beginning, seq FROM ledger;

-- Counted bytes

CREATE TABLE stored_bytes (
	kind  TEXT COLLATE "C" NOT NULL,
	name  TEXT COLLATE "C" NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (kind, name)
);

CREATE FUNCTION add_stored_bytes(account TEXT, group_name TEXT, n BIGINT) RETURNS void LANGUAGE sql AS $$
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', $1, $3), ('group', $2, $3)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes
$$;

-- Of files.
CREATE FUNCTION count_file() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP <> 'INSERT' AND OLD.deleted_ns IS NULL AND OLD.blob_id <> OLD.ref THEN
		PERFORM add_stored_bytes(OLD.uploader, OLD.group_id, -OLD.blob_size);
	END IF;
	IF TG_OP <> 'DELETE' AND NEW.deleted_ns IS NULL AND NEW.blob_id <> NEW.ref THEN
		PERFORM add_stored_bytes(NEW.uploader, NEW.group_id, NEW.blob_size);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER files_counted
	AFTER INSERT OR DELETE OR UPDATE OF deleted_ns, blob_id, blob_size, uploader, group_id, ref ON files
	FOR EACH ROW EXECUTE FUNCTION count_file();

-- Of formats of files.
CREATE FUNCTION count_format() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP <> 'INSERT' AND OLD.deleted_ns IS NULL AND octet_length(OLD.format) > 1024 THEN
		PERFORM add_stored_bytes(OLD.uploader, OLD.group_id, 1024 - octet_length(OLD.format));
	END IF;
	IF TG_OP <> 'DELETE' AND NEW.deleted_ns IS NULL AND octet_length(NEW.format) > 1024 THEN
		PERFORM add_stored_bytes(NEW.uploader, NEW.group_id, octet_length(NEW.format) - 1024);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER formats_counted AFTER INSERT OR DELETE OR UPDATE OF deleted_ns, uploader, group_id, format ON files
	FOR EACH ROW EXECUTE FUNCTION count_format();

-- Of records. What makes room, and what takes rights away, is not counted: it is possible at every bound.
CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM add_stored_bytes(NEW.account, NEW.group_id,
		octet_length(NEW.kind || NEW.account || NEW.group_id || NEW.ref || NEW.file_hash || NEW.detail || NEW.chain || NEW.tags) + 192);
	RETURN NULL;
END
$$;
CREATE TRIGGER ledger_counted AFTER INSERT ON ledger FOR EACH ROW
	WHEN (NEW.fee = '0' AND NEW.group_id <> '' AND NEW.kind NOT IN ('record_transaction', 'claim_token', 'tombstone_transaction',
		'remove_file', 'remove_folder', 'restore_file', 'revoke_group_member', 'keep_files', 'pend_destruction'))
	EXECUTE FUNCTION count_change();

-- Of uploads and of parts. Once for each statement: a file may have thousands of parts, thousands of uploads expire at
-- once, and a row that is changed so often in one transaction becomes slow.
CREATE FUNCTION count_coming() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP <> 'INSERT' THEN
		INSERT INTO stored_bytes (kind, name, bytes) SELECT kind, name, -sum(n) FROM (
			SELECT 'account' AS kind, account AS name, blob_size AS n FROM gone WHERE blob_id IS NOT NULL
			UNION ALL SELECT 'group', group_id, blob_size FROM gone WHERE blob_id IS NOT NULL) rows
		GROUP BY kind, name
		ON CONFLICT (kind, name) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes;
	END IF;
	IF TG_OP <> 'DELETE' THEN
		INSERT INTO stored_bytes (kind, name, bytes) SELECT kind, name, sum(n) FROM (
			SELECT 'account' AS kind, account AS name, blob_size AS n FROM added WHERE blob_id IS NOT NULL
			UNION ALL SELECT 'group', group_id, blob_size FROM added WHERE blob_id IS NOT NULL) rows
		GROUP BY kind, name
		ON CONFLICT (kind, name) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER uploads_added AFTER INSERT ON uploads REFERENCING NEW TABLE AS added
	FOR EACH STATEMENT EXECUTE FUNCTION count_coming();
CREATE TRIGGER uploads_gone AFTER DELETE ON uploads REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION count_coming();
CREATE TRIGGER uploads_changed AFTER UPDATE ON uploads REFERENCING OLD TABLE AS gone NEW TABLE AS added
	FOR EACH STATEMENT EXECUTE FUNCTION count_coming();
CREATE TRIGGER parts_added AFTER INSERT ON parts REFERENCING NEW TABLE AS added
	FOR EACH STATEMENT EXECUTE FUNCTION count_coming();
CREATE TRIGGER parts_gone AFTER DELETE ON parts REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION count_coming();
CREATE TRIGGER parts_changed AFTER UPDATE ON parts REFERENCING OLD TABLE AS gone NEW TABLE AS added
	FOR EACH STATEMENT EXECUTE FUNCTION count_coming();

-- Small contents are removed with their owner: triggers do it, so that no statement can forget it.
CREATE FUNCTION end_small() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM small_contents WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS BIGINT);
	RETURN NULL;
END $$;
CREATE FUNCTION end_small_of_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT 1 FROM files WHERE ref = OLD.ref AND blob_id = OLD.blob_id) THEN
		DELETE FROM small_contents WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS BIGINT);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER files_end_small AFTER UPDATE OF deleted_ns ON files FOR EACH ROW
	WHEN (OLD.deleted_ns IS NULL AND NEW.deleted_ns IS NOT NULL AND substr(OLD.blob_id, 1, 4) = 'row:')
	EXECUTE FUNCTION end_small();
CREATE TRIGGER uploads_change_small AFTER UPDATE OF blob_id ON uploads FOR EACH ROW
	WHEN (substr(OLD.blob_id, 1, 4) = 'row:' AND OLD.blob_id IS DISTINCT FROM NEW.blob_id)
	EXECUTE FUNCTION end_small_of_upload();
CREATE TRIGGER uploads_end_small AFTER DELETE ON uploads FOR EACH ROW
	WHEN (substr(OLD.blob_id, 1, 4) = 'row:') EXECUTE FUNCTION end_small_of_upload();

-- The trees of living names of groups (service/LEDGER.md), in pages. They follow from the tables: a group without one
-- gets one when somebody asks for a proof.
CREATE TABLE name_trees (
	group_id TEXT PRIMARY KEY,
	build    BIGINT NOT NULL, -- whose pages they are
	seq      BIGINT NOT NULL, -- the tree has what all records up to it changed
	number   BIGINT NOT NULL, -- in the chain, of that record
	moved    BIGINT NOT NULL, -- up to which seq folders are renamed in it
	root     BYTEA NOT NULL,
	top      BIGINT NOT NULL, -- the page with the root; 0 = nothing lives
	last     BIGINT NOT NULL  -- the largest number of a page
);

CREATE TABLE name_pages (
	group_id TEXT NOT NULL,
	build    BIGINT NOT NULL,
	page     BIGINT NOT NULL,
	data     BYTEA NOT NULL,
	PRIMARY KEY (group_id, build, page)
);

-- What the vault said of the members of a group, with its MAC: a vault that was started anew goes on from there. A group
-- without a row is read from its first record on.
CREATE TABLE group_states (
	group_id TEXT COLLATE "C" PRIMARY KEY,
	state    BYTEA NOT NULL
);
