-- What a client says of a file in more than 1 KiB counts as bytes of the file, so that no account
-- keeps more than it may as the format of tiny files. A deleted file keeps none of it.
UPDATE files SET format = 'null' WHERE deleted_ns IS NOT NULL AND format <> 'null';
INSERT INTO stored_bytes (kind, name, bytes) SELECT kind, name, sum(bytes) FROM (
	SELECT 'account' AS kind, uploader AS name, octet_length(format) - 1024 AS bytes FROM files WHERE deleted_ns IS NULL AND octet_length(format) > 1024
	UNION ALL SELECT 'group', group_id, octet_length(format) - 1024 FROM files WHERE deleted_ns IS NULL AND octet_length(format) > 1024
) AS said WHERE true GROUP BY kind, name
ON CONFLICT (kind, name) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes;

CREATE TRIGGER formats_counted_in AFTER INSERT ON files WHEN NEW.deleted_ns IS NULL AND octet_length(NEW.format) > 1024 BEGIN
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', NEW.uploader, octet_length(NEW.format) - 1024), ('group', NEW.group_id, octet_length(NEW.format) - 1024)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER formats_counted_out AFTER DELETE ON files WHEN OLD.deleted_ns IS NULL AND octet_length(OLD.format) > 1024 BEGIN
	UPDATE stored_bytes SET bytes = bytes - (octet_length(OLD.format) - 1024) WHERE (kind, name) IN (VALUES ('account', OLD.uploader), ('group', OLD.group_id));
END;
CREATE TRIGGER formats_counted_out_again AFTER UPDATE OF deleted_ns, uploader, group_id, format ON files WHEN OLD.deleted_ns IS NULL AND octet_length(OLD.format) > 1024 BEGIN
	UPDATE stored_bytes SET bytes = bytes - (octet_length(OLD.format) - 1024) WHERE (kind, name) IN (VALUES ('account', OLD.uploader), ('group', OLD.group_id));
END;
CREATE TRIGGER formats_counted_in_again AFTER UPDATE OF deleted_ns, uploader, group_id, format ON files WHEN NEW.deleted_ns IS NULL AND octet_length(NEW.format) > 1024 BEGIN
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', NEW.uploader, octet_length(NEW.format) - 1024), ('group', NEW.group_id, octet_length(NEW.format) - 1024)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
