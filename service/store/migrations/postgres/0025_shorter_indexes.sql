-- Small contents are in no index of blobs.
ALTER TABLE files DROP CONSTRAINT files_blob_id_key;
CREATE UNIQUE INDEX files_by_blob ON files (blob_id) WHERE substr(blob_id, 1, 4) <> 'row:';

CREATE OR REPLACE FUNCTION end_small_of_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT 1 FROM files WHERE ref = OLD.ref AND blob_id = OLD.blob_id) THEN
		DELETE FROM small_contents WHERE id = CAST(substr(OLD.blob_id, 5, 12) AS BIGINT);
	END IF;
	RETURN NULL;
END $$;
