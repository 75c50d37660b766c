-- Amounts are decimal digits of yocto; names that end in _ns are ns since the epoch, in UTC; hashes of
-- files are lower-case hex. A seq is the sequence of a record of the ledger. Tables whose rows others
-- refer to come first. Columns that may be long come last: SQLite reads a row from its beginning.

-- The service

-- Facts about the whole service, such as a rotation of the master key that has begun.
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Work that one process does for all.
CREATE TABLE leases (
	name     TEXT PRIMARY KEY,
	holder   TEXT NOT NULL,
	until_ns INTEGER NOT NULL,
	fence    INTEGER NOT NULL DEFAULT 0 -- larger than that of the holder before
) STRICT, WITHOUT ROWID;

-- The keys of the service itself, each wrapped by the master key. One that is replaced gets the next
-- version. While the master key changes there is a row for the old one and a row for the new one.
CREATE TABLE service_keys (
	purpose TEXT NOT NULL,
	version INTEGER NOT NULL,           -- from 1
	master  TEXT NOT NULL,              -- name of the master key, which says nothing about it
	wrapped BLOB NOT NULL,
	made_ns INTEGER NOT NULL DEFAULT 0, -- the keys of uploads end with time
	PRIMARY KEY (purpose, version, master)
) STRICT, WITHOUT ROWID;

-- Accounts

CREATE TABLE accounts (
	id             TEXT PRIMARY KEY,
	credential     BLOB NOT NULL,    -- of the vault for the API key; empty = there is none
	key_generation INTEGER NOT NULL, -- 0 = no key was given out yet
	balance        TEXT NOT NULL,
	created_ns     INTEGER NOT NULL,
	disabled_ns    INTEGER,          -- since when the operator lets it do nothing; NULL = it may act
	deleted_ns     INTEGER           -- when it ended, which keeps its name; it is disabled, too
) STRICT, WITHOUT ROWID;

-- How many changes without a price an account made on the day it made the last one.
CREATE TABLE free_changes (
	account TEXT NOT NULL,
	scope   TEXT NOT NULL,    -- '' = all; group:… and file:…, as others own that group; reserve = bytes on a full disk
	day     INTEGER NOT NULL, -- days since the epoch, UTC
	made    INTEGER NOT NULL,
	PRIMARY KEY (account, scope)
) STRICT, WITHOUT ROWID;

-- Who a subject of an OpenID Connect issuer is here.
CREATE TABLE identities (
	issuer  TEXT NOT NULL,
	subject TEXT NOT NULL,
	account TEXT NOT NULL REFERENCES accounts (id),
	PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;

-- One-time links that sign in to the account page. Only hashes of secrets are kept.
CREATE TABLE sign_in_links (
	hash       BLOB PRIMARY KEY, -- SHA-256
	account    TEXT NOT NULL REFERENCES accounts (id),
	expires_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE web_sessions (
	hash       BLOB PRIMARY KEY, -- SHA-256 of the id in the token
	account    TEXT NOT NULL REFERENCES accounts (id),
	created_ns INTEGER NOT NULL,
	expires_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Accounts that somebody may make, once.
CREATE TABLE invites (
	id         TEXT PRIMARY KEY,
	hash       BLOB NOT NULL, -- SHA-256 of the secret
	account    TEXT NOT NULL, -- does not exist yet
	balance    TEXT NOT NULL,
	expires_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Groups

CREATE TABLE groups (
	id                   TEXT PRIMARY KEY,
	owner                TEXT NOT NULL REFERENCES accounts (id),
	key_version          INTEGER NOT NULL,                  -- grows with every revocation
	format               INTEGER NOT NULL DEFAULT 2,        -- the newest format version that uploads may have
	appends              TEXT NOT NULL DEFAULT 'apart',     -- to what others saved meanwhile: 'apart' or 'merge'
	keys                 TEXT NOT NULL DEFAULT 'any',       -- how keys of files are given: 'any' or 'sealed'
	joinable             INTEGER NOT NULL,                  -- whether it ever had a window for joining
	join_expires         INTEGER,                           -- ns; NULL = the window is closed
	join_max_uses        INTEGER,                           -- NULL = unlimited
	join_uses            INTEGER NOT NULL DEFAULT 0,
	join_role            TEXT NOT NULL DEFAULT 'writer',    -- of those who join by themselves
	trash_days           INTEGER NOT NULL DEFAULT 30,       -- how long a removed file can be brought back
	trash_who            TEXT NOT NULL DEFAULT 'uploader',  -- who removes a file: 'uploader' or 'writers'
	retention_days       INTEGER,                           -- NULL = forever
	pending_retention    INTEGER,                           -- the window that the group gets, see pending_deletions
	pending_retention_ns INTEGER,                           -- when; NULL = none waits
	versions             TEXT NOT NULL DEFAULT 'all',       -- kept older ones: 'all', a number, or days as in '30d'
	pending_versions     TEXT,                              -- the setting that waits
	pending_versions_ns  INTEGER,                           -- when it begins; NULL = none waits
	thinned_seq          INTEGER NOT NULL DEFAULT 0,        -- the sweep has seen the names of files changed up to it
	thinned_file         INTEGER NOT NULL DEFAULT 0,        -- and, of the next change, of those uploaded up to it
	list_key             INTEGER,                           -- in file_keys; NULL = the group never had a file
	offer_to             TEXT,                              -- the member that the group is offered to; NULL = nobody
	offer_from_ns        INTEGER,                           -- from when on the member may accept
	offer_until_ns       INTEGER,                           -- and until when
	pending_end_ns       INTEGER,                           -- when the group ends; NULL = it stays
	ended_ns             INTEGER                            -- when it ended; the row stays, because no group gets its id
) STRICT, WITHOUT ROWID;
CREATE INDEX groups_thinned ON groups (id) WHERE versions <> 'all';
CREATE INDEX groups_with_window ON groups (id) WHERE retention_days IS NOT NULL;
CREATE INDEX groups_ended ON groups (id) WHERE ended_ns IS NOT NULL;

-- Memberships that somebody with an account may take, once.
CREATE TABLE group_invites (
	id         TEXT PRIMARY KEY,
	hash       BLOB NOT NULL, -- SHA-256 of the secret
	group_id   TEXT NOT NULL REFERENCES groups (id),
	role       TEXT NOT NULL,
	expires_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX group_invites_by_group ON group_invites (group_id);

CREATE TABLE members (
	group_id TEXT NOT NULL REFERENCES groups (id),
	account  TEXT NOT NULL,
	since    INTEGER NOT NULL,               -- seq
	role     TEXT NOT NULL DEFAULT 'writer', -- the owner of a group is in its own row
	PRIMARY KEY (group_id, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_account ON members (account, group_id);

-- Files

-- The table has row numbers, so that its indexes do not repeat the whole reference.
CREATE TABLE files (
	ref            TEXT PRIMARY KEY,
	group_id       TEXT NOT NULL REFERENCES groups (id),
	seq            INTEGER NOT NULL,                -- of the upload
	changed_seq    INTEGER NOT NULL,                -- of the newest record about the file
	named_seq      INTEGER NOT NULL,                -- of the record that gave it its name, or put it into the trash
	tx_id          TEXT NOT NULL,                   -- of the upload
	uploader       TEXT NOT NULL,
	time_ns        INTEGER NOT NULL,                -- of the upload
	filename       TEXT NOT NULL,
	file_hash      TEXT NOT NULL,                   -- the commitment to size and hash of the plaintext, see openings
	content        TEXT NOT NULL DEFAULT '',        -- the hash of a file of format version 2; '' = another version
	versioned      INTEGER NOT NULL DEFAULT 0,      -- its client knows that names have versions; others stay
	backend        TEXT NOT NULL DEFAULT 'FastFS',  -- or Ipfs, for references of an older network
	blob_id        TEXT NOT NULL,                   -- of a blob or of small_contents; ref = the bytes are in neither
	blob_size      INTEGER NOT NULL,
	blob_sum       BLOB NOT NULL,
	key_version    INTEGER NOT NULL,                -- of the group
	key_id         INTEGER,                         -- in file_keys, negative: in small_contents; NULL once destroyed
	deleted_ns     INTEGER,                         -- NULL = it lives
	deleted_by     TEXT,
	deleted_why    TEXT,
	trash_ns       INTEGER,                         -- since when it is in the trash; NULL = it is not
	trash_by       TEXT,
	trash_until_ns INTEGER,                         -- when its key is destroyed; NULL = when the owner says so
	content_type   TEXT NOT NULL,
	format         TEXT NOT NULL,                   -- as it was sent; 'null' when none was, and once deleted
	attributes     TEXT NOT NULL DEFAULT ''         -- canonical text: time, execute bit, link target, xattrs; '' = none
) STRICT;
CREATE UNIQUE INDEX files_by_blob ON files (blob_id) WHERE substr(blob_id, 1, 4) <> 'row:';
CREATE INDEX files_by_group ON files (group_id, seq);
CREATE INDEX files_by_age ON files (group_id, time_ns) WHERE deleted_ns IS NULL AND backend = 'FastFS';
CREATE INDEX files_by_change ON files (group_id, changed_seq, seq);
-- Names are cut: an entry of an index of PostgreSQL has at most 2,704 bytes, a name up to 4,096. The
-- index serves the thinning of versions, and a save that looks for the newest one, too.
CREATE INDEX files_by_name ON files (group_id, substr(filename, 1, 200), seq, versioned) WHERE deleted_ns IS NULL;
CREATE INDEX files_in_trash ON files (group_id, trash_by) WHERE trash_ns IS NOT NULL;
CREATE INDEX files_in_trash_by_seq ON files (group_id, seq) WHERE trash_ns IS NOT NULL;
CREATE INDEX files_by_trash_end ON files (trash_until_ns) WHERE trash_until_ns IS NOT NULL;

-- Recorded folders. Those that were removed have no row.
CREATE TABLE folders (
	ref      TEXT PRIMARY KEY,
	group_id TEXT NOT NULL REFERENCES groups (id),
	account  TEXT NOT NULL,    -- that made it
	seq      INTEGER NOT NULL, -- of the making
	time_ns  INTEGER NOT NULL, -- of the making
	path     TEXT NOT NULL     -- with a slash at its end: a folder is renamed like a file beneath itself
) STRICT, WITHOUT ROWID;
CREATE INDEX folders_by_path ON folders (group_id, substr(path, 1, 200));
CREATE INDEX folders_by_account ON folders (group_id, account);

-- Wrapped keys have a table of their own. Its rows are appended and overwritten in place, never moved: a
-- row that moves to another page leaves a copy behind that no deletion reaches.
CREATE TABLE file_keys (
	id          INTEGER PRIMARY KEY,
	wrapped_key BLOB NOT NULL,   -- zeros once destroyed; always of one size
	free        INTEGER NOT NULL -- may be taken by another file
) STRICT;
CREATE INDEX file_keys_free ON file_keys (id) WHERE free;
-- The row of the next key: one that is free, else a new one.
CREATE VIEW free_file_keys AS SELECT id FROM file_keys WHERE free;
CREATE VIEW next_file_keys AS SELECT COALESCE(max(id), 0) + 1 AS id FROM file_keys;

-- What the record of a file commits to, sealed under the list key of its group: as file_keys, a row is
-- overwritten in place, with zeros, once the key of the file is destroyed.
CREATE TABLE openings (
	seq    INTEGER PRIMARY KEY, -- of the upload
	sealed BLOB NOT NULL        -- always of one size
) STRICT;

-- Small ciphertext lies here and not in a blob of its own. The blob_id of its file or upload is row:, the
-- id in 12 digits, a colon and random digits; or a plus sign instead of the colon, and then the wrapped
-- key of the file lies before the ciphertext. Rows are overwritten by rows of the same size, never removed,
-- for the reason of file_keys.
CREATE TABLE small_contents (
	id   INTEGER PRIMARY KEY,
	size INTEGER NOT NULL, -- of data
	free INTEGER NOT NULL, -- may be taken by another file
	data BLOB NOT NULL     -- with zeros after it; zeros alone once destroyed
) STRICT;
CREATE INDEX small_contents_free ON small_contents (size) WHERE free;
-- As those of file_keys.
CREATE VIEW free_small_contents AS SELECT id, size FROM small_contents WHERE free;
CREATE VIEW next_small_contents AS SELECT COALESCE(max(id), 0) + 1 AS id FROM small_contents;

-- Sealed blocks that are stored as one blob. A part belongs to an upload, or once that is recorded to the
-- files in part_uses.
CREATE TABLE parts (
	id          TEXT PRIMARY KEY,
	blob_id     TEXT NOT NULL UNIQUE,
	blob_size   INTEGER NOT NULL,
	group_id    TEXT NOT NULL,
	account     TEXT NOT NULL,
	upload_id   TEXT,             -- of part_uploads; NULL once recorded
	block_size  INTEGER NOT NULL,
	loose       INTEGER,          -- since this seq some blocks may be of no use: a file that used the part ended, or
	                              -- its only file never used all of it; NULL = every block is in use
	blocks      TEXT NOT NULL,    -- such as 0-31,40: in the order of the blob
	leaves      BLOB NOT NULL     -- 32 bytes for each block; they prove the blob
) STRICT;
CREATE INDEX parts_by_upload ON parts (upload_id, id) WHERE upload_id IS NOT NULL;
CREATE INDEX parts_loose ON parts (loose) WHERE loose IS NOT NULL;

CREATE TABLE part_uses (
	part TEXT NOT NULL REFERENCES parts (id),
	ref  TEXT NOT NULL REFERENCES files (ref),
	PRIMARY KEY (part, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX part_uses_by_ref ON part_uses (ref);

-- What a file of format version 2 consists of, until its key is destroyed.
CREATE TABLE contents (
	ref        TEXT PRIMARY KEY REFERENCES files (ref),
	size       INTEGER NOT NULL, -- of the plaintext, in bytes
	block_size INTEGER NOT NULL,
	manifest   BLOB,         -- NULL = it is the blob of the file
	tops       BLOB NOT NULL -- the hash over each 256 blocks, but for the rest at the end
) STRICT;

-- Uploads and retrievals

-- Uploads in parts that are not recorded.
CREATE TABLE part_uploads (
	id         TEXT PRIMARY KEY,  -- of account and upload, as in spent_uploads, in hex
	account    TEXT NOT NULL,
	group_id   TEXT NOT NULL,
	block_size INTEGER NOT NULL,
	began_ns   INTEGER NOT NULL,
	expires_ns INTEGER NOT NULL,
	parts      INTEGER NOT NULL,  -- how many there are, and their bytes: so that nobody counts rows while all
	part_bytes INTEGER NOT NULL   -- writers wait
) STRICT, WITHOUT ROWID;
CREATE INDEX part_uploads_by_expiry ON part_uploads (expires_ns);
CREATE INDEX part_uploads_of ON part_uploads (account);

-- Uploads that were prepared. Finished ones stay for a while, for those who ask again.
CREATE TABLE uploads (
	id          TEXT PRIMARY KEY,
	account     TEXT NOT NULL,
	group_id    TEXT NOT NULL,
	ref         TEXT NOT NULL,
	filename    TEXT NOT NULL,
	key_version INTEGER NOT NULL,
	key_id      INTEGER,                    -- NULL once the file owns it
	expires_ns  INTEGER NOT NULL,
	blob_id     TEXT,                       -- of a transfer
	blob_size   INTEGER,
	blob_sum    BLOB,
	result      TEXT                        -- answer of the finalize, JSON; NULL = not finished
) STRICT, WITHOUT ROWID;
CREATE INDEX uploads_by_expiry ON uploads (expires_ns);
-- Every upload begins by counting the account's unfinished ones.
CREATE INDEX uploads_open ON uploads (account) WHERE result IS NULL;

-- The ids of uploads in one request. They stay for ever, so that an old copy of an upload brings nothing
-- back. The record has account, group and reference.
CREATE TABLE spent_uploads (
	id  BLOB PRIMARY KEY, -- 16 bytes: the time in the id that the client chose, then a hash of account and id
	seq INTEGER NOT NULL,
	tag BLOB              -- 32 bytes of the save, where the client said them
) STRICT, WITHOUT ROWID;

-- Journals that ended, as long as the vault has the epoch that their keys are sealed to.
CREATE TABLE ended_journals (
	id    BLOB PRIMARY KEY, -- as in spent_uploads
	epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_journals_by_epoch ON ended_journals (epoch);

-- Retrievals that were paid for.
CREATE TABLE claims (
	account  TEXT NOT NULL,
	claim_id TEXT NOT NULL,
	ref      TEXT NOT NULL,
	time_ns  INTEGER NOT NULL,
	PRIMARY KEY (account, claim_id, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_by_time ON claims (time_ns);

-- Deletions

-- What would destroy many files waits: files that are deleted when their time comes, unless somebody takes
-- that back.
CREATE TABLE pending_deletions (
	ref      TEXT PRIMARY KEY,
	group_id TEXT NOT NULL REFERENCES groups (id),
	account  TEXT NOT NULL, -- who asked
	due_ns   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pending_deletions_by_group ON pending_deletions (group_id, account);
CREATE INDEX pending_deletions_by_time ON pending_deletions (due_ns);

-- Deletions of the last day that did not wait, to count them.
CREATE TABLE recent_deletions (
	group_id TEXT NOT NULL,
	account  TEXT NOT NULL,
	time_ns  INTEGER NOT NULL,
	ref      TEXT NOT NULL,
	PRIMARY KEY (group_id, account, time_ns, ref)
) STRICT, WITHOUT ROWID;

-- The ledger (service/LEDGER.md)

CREATE TABLE ledger (
	seq       INTEGER PRIMARY KEY,
	tx_id     TEXT NOT NULL,
	kind      TEXT NOT NULL,
	time_ns   INTEGER NOT NULL,
	account   TEXT NOT NULL,              -- the account that acted
	group_id  TEXT NOT NULL,
	ref       TEXT NOT NULL,
	file_hash TEXT NOT NULL,
	detail    TEXT NOT NULL,              -- depends on the kind
	fee       TEXT NOT NULL,
	request   TEXT NOT NULL,
	chain     TEXT NOT NULL DEFAULT '',   -- of its group or account
	number    INTEGER NOT NULL DEFAULT 0, -- in the chain
	prev_hash BLOB NOT NULL,              -- of the record before it in the chain
	hash      BLOB NOT NULL,
	tags      TEXT NOT NULL DEFAULT ''    -- a JSON list of names and values in turns; '' = none
) STRICT;
-- The chain of a group and its retrievals are in an index each: a save changes few pages.
CREATE INDEX ledger_by_chain ON ledger (group_id, seq) WHERE kind <> 'claim_token';
CREATE INDEX ledger_claims ON ledger (group_id, seq) WHERE kind = 'claim_token';
CREATE INDEX ledger_by_account ON ledger (account, seq);
-- Who was revoked from which group: nobody joins again by himself, and watch tells him.
CREATE INDEX ledger_revocations ON ledger (detail, group_id, seq) WHERE kind = 'revoke_group_member';
-- Records of folders are looked for in the long chain of a group with every rename_folder.
CREATE INDEX ledger_folders ON ledger (group_id, seq) WHERE kind IN ('rename_folder', 'make_folder', 'remove_folder');

CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- seq names a record, and ascends in each chain. The place of a record in the whole ledger is another thing: 1, 2,
-- 3 and so on without gaps. Here, where one writes after the other, both are one number, and nothing is stored: the
-- views are for PostgreSQL. A ledger that came from there keeps its places (ledger.KeepPlaces).
CREATE VIEW places AS SELECT seq AS place, seq FROM ledger;
-- The records with their places; NULL as long as a record has none, which never is here.
CREATE VIEW placed AS SELECT *, seq AS place FROM ledger;
-- places, for the smallest and the largest seq of some places.
CREATE VIEW place_bounds AS SELECT seq AS place, seq AS bound FROM ledger;
-- The record before the next one is the last row by seq.
CREATE VIEW newest_records AS SELECT seq, time_ns FROM ledger;
-- Records without a place: none.
CREATE VIEW unplaced AS SELECT seq FROM ledger WHERE 0;

-- Where each chain ends.
CREATE TABLE chains (
	chain   TEXT PRIMARY KEY,
	number  INTEGER NOT NULL, -- of its records
	hash    BLOB NOT NULL,    -- of its last record
	time_ns INTEGER NOT NULL  -- of its last record
) STRICT, WITHOUT ROWID;

-- The beginnings of the ids of all records up to the last sequence that 2048 divides. An id is a hash, so
-- that each has a page of its own; this index is written for many records at once.
CREATE TABLE record_ids (
	beginning TEXT NOT NULL,
	seq       INTEGER NOT NULL,
	PRIMARY KEY (beginning, seq)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER ledger_ids AFTER INSERT ON ledger WHEN NEW.seq % 2048 = 0 BEGIN
	INSERT INTO record_ids SELECT substr(tx_id, 1, 10), seq FROM ledger
		WHERE seq > NEW.seq - 2048 AND seq <= NEW.seq ORDER BY 1;
END;

-- Counted bytes

-- How many bytes are kept for an account, which uploaded them, and for a group: the ciphertext of living
-- files with all their versions and of uploads that are not finished, what clients say of a file in
-- more than 1 KiB, and the records of changes that cost nothing. Triggers keep it, so that no statement can
-- forget it.
CREATE TABLE stored_bytes (
	kind  TEXT NOT NULL, -- 'account' or 'group'
	name  TEXT NOT NULL,
	bytes INTEGER NOT NULL,
	PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Of files.
CREATE TRIGGER files_counted_in AFTER INSERT ON files
	WHEN NEW.deleted_ns IS NULL AND NEW.blob_id <> NEW.ref BEGIN
	INSERT INTO stored_bytes (kind, name, bytes)
		VALUES ('account', NEW.uploader, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
		ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER files_counted_out AFTER DELETE ON files
	WHEN OLD.deleted_ns IS NULL AND OLD.blob_id <> OLD.ref BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size
		WHERE (kind, name) IN (VALUES ('account', OLD.uploader), ('group', OLD.group_id));
END;
CREATE TRIGGER files_counted_out_again AFTER UPDATE OF deleted_ns, blob_id, blob_size, uploader, group_id, ref ON files
	WHEN OLD.deleted_ns IS NULL AND OLD.blob_id <> OLD.ref BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size
		WHERE (kind, name) IN (VALUES ('account', OLD.uploader), ('group', OLD.group_id));
END;
CREATE TRIGGER files_counted_in_again AFTER UPDATE OF deleted_ns, blob_id, blob_size, uploader, group_id, ref ON files
	WHEN NEW.deleted_ns IS NULL AND NEW.blob_id <> NEW.ref BEGIN
	INSERT INTO stored_bytes (kind, name, bytes)
		VALUES ('account', NEW.uploader, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
		ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

-- Of formats of files.
CREATE TRIGGER formats_counted_in AFTER INSERT ON files
	WHEN NEW.deleted_ns IS NULL AND octet_length(NEW.format) > 1024 BEGIN
	INSERT INTO stored_bytes (kind, name, bytes)
		VALUES ('account', NEW.uploader, octet_length(NEW.format) - 1024),
			('group', NEW.group_id, octet_length(NEW.format) - 1024)
		ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER formats_counted_out AFTER DELETE ON files
	WHEN OLD.deleted_ns IS NULL AND octet_length(OLD.format) > 1024 BEGIN
	UPDATE stored_bytes SET bytes = bytes - (octet_length(OLD.format) - 1024)
		WHERE (kind, name) IN (VALUES ('account', OLD.uploader), ('group', OLD.group_id));
END;
CREATE TRIGGER formats_counted_out_again AFTER UPDATE OF deleted_ns, uploader, group_id, format ON files
	WHEN OLD.deleted_ns IS NULL AND octet_length(OLD.format) > 1024 BEGIN
	UPDATE stored_bytes SET bytes = bytes - (octet_length(OLD.format) - 1024)
		WHERE (kind, name) IN (VALUES ('account', OLD.uploader), ('group', OLD.group_id));
END;
CREATE TRIGGER formats_counted_in_again AFTER UPDATE OF deleted_ns, uploader, group_id, format ON files
	WHEN NEW.deleted_ns IS NULL AND octet_length(NEW.format) > 1024 BEGIN
	INSERT INTO stored_bytes (kind, name, bytes)
		VALUES ('account', NEW.uploader, octet_length(NEW.format) - 1024),
			('group', NEW.group_id, octet_length(NEW.format) - 1024)
		ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

-- Of records. What makes room, and what takes rights away, is not counted: it is possible at every bound.
CREATE TRIGGER ledger_counted AFTER INSERT ON ledger
	WHEN NEW.fee = '0' AND NEW.group_id <> '' AND NEW.kind NOT IN ('record_transaction', 'claim_token', 'tombstone_transaction',
		'remove_file', 'remove_folder', 'restore_file', 'revoke_group_member', 'keep_files', 'pend_destruction') BEGIN
	INSERT INTO stored_bytes (kind, name, bytes)
		SELECT kind, name, octet_length(NEW.kind || NEW.account || NEW.group_id || NEW.ref || NEW.file_hash || NEW.detail || NEW.chain || NEW.tags) + 192
			FROM (SELECT 'account' AS kind, NEW.account AS name UNION ALL SELECT 'group', NEW.group_id) WHERE true
		ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

-- Of uploads.
CREATE TRIGGER uploads_counted_at_once AFTER INSERT ON uploads WHEN NEW.blob_id IS NOT NULL BEGIN
	INSERT INTO stored_bytes (kind, name, bytes)
		VALUES ('account', NEW.account, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
		ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER uploads_counted_gone AFTER DELETE ON uploads WHEN OLD.blob_id IS NOT NULL BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size
		WHERE (kind, name) IN (VALUES ('account', OLD.account), ('group', OLD.group_id));
END;
CREATE TRIGGER uploads_counted_out AFTER UPDATE OF blob_id, blob_size, account, group_id ON uploads
	WHEN OLD.blob_id IS NOT NULL BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size
		WHERE (kind, name) IN (VALUES ('account', OLD.account), ('group', OLD.group_id));
END;
CREATE TRIGGER uploads_counted_in AFTER UPDATE OF blob_id, blob_size, account, group_id ON uploads
	WHEN NEW.blob_id IS NOT NULL BEGIN
	INSERT INTO stored_bytes (kind, name, bytes)
		VALUES ('account', NEW.account, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
		ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

-- Of parts.
CREATE TRIGGER parts_counted_in AFTER INSERT ON parts BEGIN
	INSERT INTO stored_bytes (kind, name, bytes)
		VALUES ('account', NEW.account, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
		ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER parts_counted_out AFTER DELETE ON parts BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size
		WHERE (kind, name) IN (VALUES ('account', OLD.account), ('group', OLD.group_id));
END;
CREATE TRIGGER parts_counted_again AFTER UPDATE OF blob_size, account, group_id ON parts BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size
		WHERE (kind, name) IN (VALUES ('account', OLD.account), ('group', OLD.group_id));
	INSERT INTO stored_bytes (kind, name, bytes)
		VALUES ('account', NEW.account, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
		ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

-- Small contents are destroyed with their owner: triggers do it, so that no statement can forget it.
CREATE TRIGGER files_end_small AFTER UPDATE OF deleted_ns ON files
	WHEN OLD.deleted_ns IS NULL AND NEW.deleted_ns IS NOT NULL AND substr(OLD.blob_id, 1, 4) = 'row:' BEGIN
	UPDATE small_contents SET data = zeroblob(size), free = 1 WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS INTEGER);
END;
CREATE TRIGGER uploads_change_small AFTER UPDATE OF blob_id ON uploads
	WHEN substr(OLD.blob_id, 1, 4) = 'row:' AND OLD.blob_id IS NOT NEW.blob_id
	AND NOT EXISTS (SELECT 1 FROM files WHERE ref = OLD.ref AND blob_id = OLD.blob_id) BEGIN
	UPDATE small_contents SET data = zeroblob(size), free = 1 WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS INTEGER);
END;
CREATE TRIGGER uploads_end_small AFTER DELETE ON uploads
	WHEN substr(OLD.blob_id, 1, 4) = 'row:'
	AND NOT EXISTS (SELECT 1 FROM files WHERE ref = OLD.ref AND blob_id = OLD.blob_id) BEGIN
	UPDATE small_contents SET data = zeroblob(size), free = 1 WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS INTEGER);
END;

-- The trees of living names of groups (service/LEDGER.md), in pages. They follow from the tables: a group without one
-- gets one when somebody asks for a proof.
CREATE TABLE name_trees (
	group_id TEXT PRIMARY KEY,
	build    INTEGER NOT NULL, -- whose pages they are
	seq      INTEGER NOT NULL, -- the tree has what all records up to it changed
	number   INTEGER NOT NULL, -- in the chain, of that record
	moved    INTEGER NOT NULL, -- up to which seq folders are renamed in it
	root     BLOB NOT NULL,
	top      INTEGER NOT NULL, -- the page with the root; 0 = nothing lives
	last     INTEGER NOT NULL  -- the largest number of a page
) STRICT, WITHOUT ROWID;

CREATE TABLE name_pages (
	group_id TEXT NOT NULL,
	build    INTEGER NOT NULL,
	page     INTEGER NOT NULL,
	data     BLOB NOT NULL,
	PRIMARY KEY (group_id, build, page)
) STRICT;

-- What the vault said of the members of a group, with its MAC: a vault that was started anew goes on from there. A group
-- without a row is read from its first record on.
CREATE TABLE group_states (
	group_id TEXT PRIMARY KEY,
	state    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
