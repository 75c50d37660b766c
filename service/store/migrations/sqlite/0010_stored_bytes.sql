-- How many bytes of ciphertext are kept for an account, who uploaded them, and for
-- a group: of living files with all their versions, and of uploads that are not
-- finished. Triggers keep it, so that no statement can forget it.
CREATE TABLE stored_bytes (
	kind  TEXT NOT NULL, -- 'account' or 'group'
	name  TEXT NOT NULL,
	bytes INTEGER NOT NULL,
	PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

INSERT INTO stored_bytes (kind, name, bytes) SELECT kind, name, sum(bytes) FROM (
	SELECT 'account' AS kind, uploader AS name, blob_size AS bytes FROM files WHERE deleted_ns IS NULL AND blob_id <> ref
	UNION ALL SELECT 'group', group_id, blob_size FROM files WHERE deleted_ns IS NULL AND blob_id <> ref
	UNION ALL SELECT 'account', account, blob_size FROM uploads WHERE blob_id IS NOT NULL
	UNION ALL SELECT 'group', group_id, blob_size FROM uploads WHERE blob_id IS NOT NULL
) GROUP BY kind, name;

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

CREATE TRIGGER uploads_counted_out AFTER UPDATE OF blob_id, blob_size, account, group_id ON uploads WHEN OLD.blob_id IS NOT NULL BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size WHERE (kind, name) IN (VALUES ('account', OLD.account), ('group', OLD.group_id));
END;
CREATE TRIGGER uploads_counted_in AFTER UPDATE OF blob_id, blob_size, account, group_id ON uploads WHEN NEW.blob_id IS NOT NULL BEGIN
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', NEW.account, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER uploads_counted_at_once AFTER INSERT ON uploads WHEN NEW.blob_id IS NOT NULL BEGIN
	INSERT INTO stored_bytes (kind, name, bytes) VALUES ('account', NEW.account, NEW.blob_size), ('group', NEW.group_id, NEW.blob_size)
	ON CONFLICT (kind, name) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER uploads_counted_gone AFTER DELETE ON uploads WHEN OLD.blob_id IS NOT NULL BEGIN
	UPDATE stored_bytes SET bytes = bytes - OLD.blob_size WHERE (kind, name) IN (VALUES ('account', OLD.account), ('group', OLD.group_id));
END;
