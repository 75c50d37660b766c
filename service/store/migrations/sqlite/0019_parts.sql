-- Files of format version 2: sealed blocks in parts. content is the hash that the ledger
-- has of such a file, '' for all others. Its blob_id is the blob of its manifest, or its own
-- reference when the manifest is in the table contents.
ALTER TABLE files ADD COLUMN content TEXT NOT NULL DEFAULT '';
-- The newest format version that uploads to a group may have.
ALTER TABLE groups ADD COLUMN format INTEGER NOT NULL DEFAULT 2;

-- An upload that may have parts has a block_size; its blob is the manifest. base: the file
-- of whose blocks it may take over, '' = none.
ALTER TABLE uploads ADD COLUMN base       TEXT NOT NULL DEFAULT '';
ALTER TABLE uploads ADD COLUMN block_size INTEGER NOT NULL DEFAULT 0;
ALTER TABLE uploads ADD COLUMN began_ns   INTEGER NOT NULL DEFAULT 0;

-- Sealed blocks that are stored as one blob. A part belongs to an upload, or once that is
-- recorded to the files in part_uses.
CREATE TABLE parts (
	id          TEXT PRIMARY KEY,
	blob_id     TEXT NOT NULL UNIQUE,
	blob_size   INTEGER NOT NULL,
	blob_sum    BLOB NOT NULL,
	group_id    TEXT NOT NULL,
	account     TEXT NOT NULL,
	upload_id   TEXT,          -- NULL once recorded
	number      INTEGER,       -- in the upload; NULL once recorded
	blocks      TEXT NOT NULL, -- such as 0-31,40: in the order of the blob
	block_size  INTEGER NOT NULL,
	leaves      BLOB NOT NULL, -- 32 bytes for each block
	wrapped_key BLOB,          -- by the key of the upload; NULL once recorded
	UNIQUE (upload_id, number)
) STRICT;
CREATE INDEX parts_open ON parts (account, blob_size) WHERE upload_id IS NOT NULL;

CREATE TABLE part_uses (
	part TEXT NOT NULL REFERENCES parts (id),
	ref  TEXT NOT NULL REFERENCES files (ref),
	PRIMARY KEY (part, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX part_uses_by_ref ON part_uses (ref);

-- What a file of format version 2 consists of, until its key is destroyed.
CREATE TABLE contents (
	ref        TEXT PRIMARY KEY REFERENCES files (ref),
	block_size INTEGER NOT NULL,
	manifest   BLOB,         -- NULL = it is the blob of the file
	tops       BLOB NOT NULL -- the hash over each 256 blocks, but for the rest at the end
) STRICT;

CREATE TRIGGER parts_counted_in AFTER INSERT ON parts BEGIN
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', NEW.account, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER parts_counted_out AFTER DELETE ON parts BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size WHERE (kind, name) IN (VALUES ('account', OLD.account), ('group', OLD.group_id));
END;
CREATE TRIGGER parts_counted_again AFTER UPDATE OF blob_size, account, group_id ON parts BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size WHERE (kind, name) IN (VALUES ('account', OLD.account), ('group', OLD.group_id));
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', NEW.account, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
