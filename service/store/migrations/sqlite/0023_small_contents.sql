-- Small ciphertext lies here and not in a file of its own; the blob_id of its file or upload
-- is row:, the id in 12 digits, a colon and random digits. Rows are appended, never removed,
-- and overwritten by rows of the same size, for the reason of file_keys.
CREATE TABLE small_contents (
	id   INTEGER PRIMARY KEY,
	size INTEGER NOT NULL, -- of data
	data BLOB NOT NULL,    -- with zeros after it; zeros alone once destroyed
	free INTEGER NOT NULL  -- may be taken by another file
) STRICT;
CREATE INDEX small_contents_free ON small_contents (size) WHERE free;

-- Triggers destroy it, so that no statement can forget it.
CREATE TRIGGER files_end_small AFTER UPDATE OF deleted_ns ON files
	WHEN OLD.deleted_ns IS NULL AND NEW.deleted_ns IS NOT NULL AND substr(OLD.blob_id, 1, 4) = 'row:' BEGIN
	UPDATE small_contents SET data = zeroblob(size), free = 1 WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS INTEGER);
END;
CREATE TRIGGER uploads_change_small AFTER UPDATE OF blob_id ON uploads
	WHEN substr(OLD.blob_id, 1, 4) = 'row:' AND OLD.blob_id IS NOT NEW.blob_id AND NOT EXISTS (SELECT 1 FROM files WHERE blob_id = OLD.blob_id) BEGIN
	UPDATE small_contents SET data = zeroblob(size), free = 1 WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS INTEGER);
END;
CREATE TRIGGER uploads_end_small AFTER DELETE ON uploads
	WHEN substr(OLD.blob_id, 1, 4) = 'row:' AND NOT EXISTS (SELECT 1 FROM files WHERE blob_id = OLD.blob_id) BEGIN
	UPDATE small_contents SET data = zeroblob(size), free = 1 WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS INTEGER);
END;
