-- Wrapped keys have a table of their own, as with SQLite.
CREATE TABLE file_keys (
	id          BIGINT PRIMARY KEY,
	wrapped_key BYTEA NOT NULL,  -- zeros once destroyed; always of one size
	free        BOOLEAN NOT NULL -- may be taken by another file
);
CREATE INDEX file_keys_free ON file_keys (id) WHERE free;

INSERT INTO file_keys (id, wrapped_key, free) SELECT seq, wrapped_key, FALSE FROM files WHERE wrapped_key IS NOT NULL;
ALTER TABLE files ADD COLUMN key_id BIGINT; -- NULL once destroyed
UPDATE files SET key_id = seq WHERE wrapped_key IS NOT NULL;
ALTER TABLE files DROP COLUMN wrapped_key;

DELETE FROM uploads WHERE result IS NULL; -- begun, not finished: they are good for five minutes anyway
ALTER TABLE uploads ADD COLUMN key_id BIGINT; -- NULL once the file owns it
ALTER TABLE uploads DROP COLUMN wrapped_key;
