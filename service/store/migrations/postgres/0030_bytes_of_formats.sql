-- What a client says of a file in more than 1 KiB counts as bytes of the file, so that no account
-- keeps more than it may as the format of tiny files. A deleted file keeps none of it.
UPDATE files SET format = 'null' WHERE deleted_ns IS NOT NULL AND format <> 'null';
INSERT INTO stored_bytes (kind, name, bytes) SELECT kind, name, sum(bytes) FROM (
	SELECT 'account' AS kind, uploader AS name, octet_length(format) - 1024 AS bytes FROM files WHERE deleted_ns IS NULL AND octet_length(format) > 1024
	UNION ALL SELECT 'group', group_id, octet_length(format) - 1024 FROM files WHERE deleted_ns IS NULL AND octet_length(format) > 1024
) AS said WHERE true GROUP BY kind, name
ON CONFLICT (kind, name) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes;

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
