-- Small ciphertext lies here and not in a blob of its own; the blob_id of its file or upload
-- is row:, the id in 12 digits, a colon and random digits. free is for SQLite, where rows are
-- overwritten; here they are removed, and only the destruction of the key counts.
CREATE TABLE small_contents (
	id   BIGINT PRIMARY KEY,
	size BIGINT NOT NULL,  -- of data
	data BYTEA NOT NULL,   -- with zeros after it
	free BOOLEAN NOT NULL
);
ALTER TABLE small_contents ALTER COLUMN data SET STORAGE EXTERNAL; -- ciphertext cannot be compressed

-- Triggers remove it, so that no statement can forget it.
CREATE FUNCTION end_small() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM small_contents WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS BIGINT);
	RETURN NULL;
END $$;
CREATE FUNCTION end_small_of_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT 1 FROM files WHERE blob_id = OLD.blob_id) THEN
		DELETE FROM small_contents WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS BIGINT);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER files_end_small AFTER UPDATE OF deleted_ns ON files FOR EACH ROW
	WHEN (OLD.deleted_ns IS NULL AND NEW.deleted_ns IS NOT NULL AND substr(OLD.blob_id, 1, 4) = 'row:') EXECUTE FUNCTION end_small();
CREATE TRIGGER uploads_change_small AFTER UPDATE OF blob_id ON uploads FOR EACH ROW
	WHEN (substr(OLD.blob_id, 1, 4) = 'row:' AND OLD.blob_id IS DISTINCT FROM NEW.blob_id) EXECUTE FUNCTION end_small_of_upload();
CREATE TRIGGER uploads_end_small AFTER DELETE ON uploads FOR EACH ROW
	WHEN (substr(OLD.blob_id, 1, 4) = 'row:') EXECUTE FUNCTION end_small_of_upload();
