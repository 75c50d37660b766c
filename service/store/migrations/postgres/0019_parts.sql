-- Files of format version 2: sealed blocks in parts. content is the hash that the ledger
-- has of such a file, '' for all others. Its blob_id is the blob of its manifest, or its own
-- reference when the manifest is in the table contents.
ALTER TABLE files ADD COLUMN content TEXT COLLATE "C" NOT NULL DEFAULT '';
-- The newest format version that uploads to a group may have.
ALTER TABLE groups ADD COLUMN format BIGINT NOT NULL DEFAULT 2;

-- An upload that may have parts has a block_size; its blob is the manifest. base: the file
-- of whose blocks it may take over, '' = none.
ALTER TABLE uploads ADD COLUMN base       TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE uploads ADD COLUMN block_size BIGINT NOT NULL DEFAULT 0;
ALTER TABLE uploads ADD COLUMN began_ns   BIGINT NOT NULL DEFAULT 0;

-- Sealed blocks that are stored as one blob. A part belongs to an upload, or once that is
-- recorded to the files in part_uses.
CREATE TABLE parts (
	id          TEXT COLLATE "C" PRIMARY KEY,
	blob_id     TEXT COLLATE "C" NOT NULL UNIQUE,
	blob_size   BIGINT NOT NULL,
	blob_sum    BYTEA NOT NULL,
	group_id    TEXT COLLATE "C" NOT NULL,
	account     TEXT COLLATE "C" NOT NULL,
	upload_id   TEXT COLLATE "C",          -- NULL once recorded
	number      BIGINT,                    -- in the upload; NULL once recorded
	blocks      TEXT COLLATE "C" NOT NULL, -- such as 0-31,40: in the order of the blob
	block_size  BIGINT NOT NULL,
	leaves      BYTEA NOT NULL,            -- 32 bytes for each block
	wrapped_key BYTEA,                     -- by the key of the upload; NULL once recorded
	UNIQUE (upload_id, number)
);
CREATE INDEX parts_open ON parts (account, blob_size) WHERE upload_id IS NOT NULL;

CREATE TABLE part_uses (
	part TEXT COLLATE "C" NOT NULL REFERENCES parts (id),
	ref  TEXT COLLATE "C" NOT NULL REFERENCES files (ref),
	PRIMARY KEY (part, ref)
);
CREATE INDEX part_uses_by_ref ON part_uses (ref);

-- What a file of format version 2 consists of, until its key is destroyed.
CREATE TABLE contents (
	ref        TEXT COLLATE "C" PRIMARY KEY REFERENCES files (ref),
	block_size BIGINT NOT NULL,
	manifest   BYTEA,         -- NULL = it is the blob of the file
	tops       BYTEA NOT NULL -- the hash over each 256 blocks, but for the rest at the end
);

-- Once for each statement: a file may have thousands of parts, and a row that is changed so
-- often in one transaction becomes slow.
CREATE FUNCTION count_parts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP <> 'INSERT' THEN
		INSERT INTO stored_bytes (kind, name, bytes) SELECT kind, name, -sum(n) FROM (
			SELECT 'account' AS kind, account AS name, blob_size AS n FROM gone UNION ALL SELECT 'group', group_id, blob_size FROM gone) parts GROUP BY kind, name
		ON CONFLICT (kind, name) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes;
	END IF;
	IF TG_OP <> 'DELETE' THEN
		INSERT INTO stored_bytes (kind, name, bytes) SELECT kind, name, sum(n) FROM (
			SELECT 'account' AS kind, account AS name, blob_size AS n FROM added UNION ALL SELECT 'group', group_id, blob_size FROM added) parts GROUP BY kind, name
		ON CONFLICT (kind, name) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER parts_added AFTER INSERT ON parts REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_parts();
CREATE TRIGGER parts_gone AFTER DELETE ON parts REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_parts();
CREATE TRIGGER parts_changed AFTER UPDATE ON parts REFERENCING OLD TABLE AS gone NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_parts();
