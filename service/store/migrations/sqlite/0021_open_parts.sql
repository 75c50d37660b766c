-- The parts of an upload, and their bytes, while it is not finished: so that who sends a
-- part has no rows of others counted, while all writers wait.
ALTER TABLE uploads ADD COLUMN parts      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE uploads ADD COLUMN part_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE uploads SET parts = (SELECT count(*) FROM parts WHERE upload_id = uploads.id),
	part_bytes = (SELECT COALESCE(sum(blob_size), 0) FROM parts WHERE upload_id = uploads.id) WHERE block_size > 0;
DROP INDEX parts_open;
