-- How many bytes of ciphertext are kept for an account, who uploaded them, and for
-- a group: of living files with all their versions, and of uploads that are not
-- finished. Triggers keep it, so that no statement can forget it.
CREATE TABLE stored_bytes (
	kind  TEXT COLLATE "C" NOT NULL, -- 'account' or 'group'
	name  TEXT COLLATE "C" NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (kind, name)
);

INSERT INTO stored_bytes (kind, name, bytes) SELECT kind, name, sum(bytes) FROM (
	SELECT 'account' AS kind, uploader AS name, blob_size AS bytes FROM files WHERE deleted_ns IS NULL AND blob_id <> ref
	UNION ALL SELECT 'group', group_id, blob_size FROM files WHERE deleted_ns IS NULL AND blob_id <> ref
	UNION ALL SELECT 'account', account, blob_size FROM uploads WHERE blob_id IS NOT NULL
	UNION ALL SELECT 'group', group_id, blob_size FROM uploads WHERE blob_id IS NOT NULL
) kept GROUP BY kind, name;

CREATE FUNCTION add_stored_bytes(account TEXT, group_name TEXT, n BIGINT) RETURNS void LANGUAGE sql AS $$
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', $1, $3), ('group', $2, $3)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes
$$;

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
CREATE TRIGGER files_counted AFTER INSERT OR DELETE OR UPDATE OF deleted_ns, blob_id, blob_size, uploader, group_id, ref ON files
	FOR EACH ROW EXECUTE FUNCTION count_file();

CREATE FUNCTION count_upload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP <> 'INSERT' AND OLD.blob_id IS NOT NULL THEN
		PERFORM add_stored_bytes(OLD.account, OLD.group_id, -OLD.blob_size);
	END IF;
	IF TG_OP <> 'DELETE' AND NEW.blob_id IS NOT NULL THEN
		PERFORM add_stored_bytes(NEW.account, NEW.group_id, NEW.blob_size);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER uploads_counted AFTER INSERT OR DELETE OR UPDATE OF blob_id, blob_size, account, group_id ON uploads
	FOR EACH ROW EXECUTE FUNCTION count_upload();

-- Space that is given up when the server's disk is full, so that records of
-- reading and removing still find room.
CREATE UNLOGGED TABLE held_back (filler CHAR(400) NOT NULL);
