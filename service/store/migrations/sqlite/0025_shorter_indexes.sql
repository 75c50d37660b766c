-- The table of files gets row numbers: each of its indexes repeated the whole reference, some
-- 150 bytes, and a save writes to all of them. Small contents are in no index of blobs.
DROP TRIGGER uploads_change_small;
DROP TRIGGER uploads_end_small;

CREATE TABLE new_files (
	ref            TEXT PRIMARY KEY,
	group_id       TEXT NOT NULL REFERENCES groups (id),
	seq            INTEGER NOT NULL, -- of the upload
	changed_seq    INTEGER NOT NULL, -- of the newest record about the file
	tx_id          TEXT NOT NULL,
	uploader       TEXT NOT NULL,
	file_hash      TEXT NOT NULL,
	time_ns        INTEGER NOT NULL,
	filename       TEXT NOT NULL,
	original_size  INTEGER,
	content_type   TEXT NOT NULL,
	format         TEXT NOT NULL,    -- as it was sent; 'null' when none was
	blob_id        TEXT NOT NULL,
	blob_size      INTEGER NOT NULL,
	blob_sum       BLOB NOT NULL,
	key_version    INTEGER NOT NULL,
	deleted_ns     INTEGER,
	deleted_by     TEXT,
	deleted_why    TEXT,
	backend        TEXT NOT NULL DEFAULT 'FastFS',
	key_id         INTEGER,          -- NULL once destroyed
	trash_ns       INTEGER,
	trash_by       TEXT,
	trash_until_ns INTEGER,
	attributes     TEXT NOT NULL DEFAULT '',
	versioned      INTEGER NOT NULL DEFAULT 0,
	content        TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO new_files SELECT ref, group_id, seq, changed_seq, tx_id, uploader, file_hash, time_ns, filename, original_size, content_type, format, blob_id, blob_size, blob_sum,
	key_version, deleted_ns, deleted_by, deleted_why, backend, key_id, trash_ns, trash_by, trash_until_ns, attributes, versioned, content FROM files ORDER BY seq;

CREATE TABLE new_part_uses (
	part TEXT NOT NULL REFERENCES parts (id),
	ref  TEXT NOT NULL REFERENCES new_files (ref),
	PRIMARY KEY (part, ref)
) STRICT, WITHOUT ROWID;
INSERT INTO new_part_uses SELECT part, ref FROM part_uses;
CREATE TABLE new_contents (
	ref        TEXT PRIMARY KEY REFERENCES new_files (ref),
	block_size INTEGER NOT NULL,
	manifest   BLOB,         -- NULL = it is the blob of the file
	tops       BLOB NOT NULL -- the hash over each 256 blocks, but for the rest at the end
) STRICT;
INSERT INTO new_contents SELECT ref, block_size, manifest, tops FROM contents;
DROP TABLE part_uses;
DROP TABLE contents;
DROP TRIGGER files_counted_out;
DROP TABLE files;
ALTER TABLE new_files RENAME TO files;
ALTER TABLE new_part_uses RENAME TO part_uses;
ALTER TABLE new_contents RENAME TO contents;

CREATE UNIQUE INDEX files_by_blob ON files (blob_id) WHERE substr(blob_id, 1, 4) <> 'row:';
CREATE INDEX files_by_group ON files (group_id, seq);
CREATE INDEX files_by_change ON files (group_id, changed_seq);
CREATE INDEX files_in_trash ON files (group_id, trash_by) WHERE trash_ns IS NOT NULL;
CREATE INDEX files_by_trash_end ON files (trash_until_ns) WHERE trash_until_ns IS NOT NULL;
CREATE INDEX files_by_name ON files (group_id, substr(filename, 1, 200), seq) WHERE deleted_ns IS NULL;
CREATE INDEX files_to_thin ON files (group_id, substr(filename, 1, 200), seq) WHERE deleted_ns IS NULL AND versioned;
CREATE INDEX part_uses_by_ref ON part_uses (ref);

CREATE TRIGGER files_counted_in AFTER INSERT ON files WHEN NEW.deleted_ns IS NULL AND NEW.blob_id <> NEW.ref BEGIN
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', NEW.uploader, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER files_counted_out AFTER DELETE ON files WHEN OLD.deleted_ns IS NULL AND OLD.blob_id <> OLD.ref BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size WHERE (kind, name) IN (VALUES ('account', OLD.uploader), ('group', OLD.group_id));
END;
CREATE TRIGGER files_counted_out_again AFTER UPDATE OF deleted_ns, blob_id, blob_size, uploader, group_id, ref ON files
	WHEN OLD.deleted_ns IS NULL AND OLD.blob_id <> OLD.ref BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size WHERE (kind, name) IN (VALUES ('account', OLD.uploader), ('group', OLD.group_id));
END;
CREATE TRIGGER files_counted_in_again AFTER UPDATE OF deleted_ns, blob_id, blob_size, uploader, group_id, ref ON files
	WHEN NEW.deleted_ns IS NULL AND NEW.blob_id <> NEW.ref BEGIN
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', NEW.uploader, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER files_end_small AFTER UPDATE OF deleted_ns ON files
	WHEN OLD.deleted_ns IS NULL AND NEW.deleted_ns IS NOT NULL AND substr(OLD.blob_id, 1, 4) = 'row:' BEGIN
	UPDATE small_contents SET data = zeroblob(size), free = 1 WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS INTEGER);
END;
CREATE TRIGGER uploads_change_small AFTER UPDATE OF blob_id ON uploads
	WHEN substr(OLD.blob_id, 1, 4) = 'row:' AND OLD.blob_id IS NOT NEW.blob_id AND NOT EXISTS (SELECT 1 FROM files WHERE ref = OLD.ref AND blob_id = OLD.blob_id) BEGIN
	UPDATE small_contents SET data = zeroblob(size), free = 1 WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS INTEGER);
END;
CREATE TRIGGER uploads_end_small AFTER DELETE ON uploads
	WHEN substr(OLD.blob_id, 1, 4) = 'row:' AND NOT EXISTS (SELECT 1 FROM files WHERE ref = OLD.ref AND blob_id = OLD.blob_id) BEGIN
	UPDATE small_contents SET data = zeroblob(size), free = 1 WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS INTEGER);
END;
