-- Wrapped keys have a table of their own. Its rows are appended and overwritten
-- in place, never moved: a row that moves to another page leaves a copy behind
-- that no deletion reaches.
CREATE TABLE file_keys (
	id          INTEGER PRIMARY KEY,
	wrapped_key BLOB NOT NULL,   -- zeros once destroyed; always of one size
	free        INTEGER NOT NULL -- may be taken by another file
) STRICT;
CREATE INDEX file_keys_free ON file_keys (id) WHERE free;

INSERT INTO file_keys (id, wrapped_key, free) SELECT seq, wrapped_key, 0 FROM files WHERE wrapped_key IS NOT NULL ORDER BY seq;
ALTER TABLE files ADD COLUMN key_id INTEGER; -- NULL once destroyed
UPDATE files SET key_id = seq WHERE wrapped_key IS NOT NULL;
ALTER TABLE files DROP COLUMN wrapped_key;

DELETE FROM uploads WHERE result IS NULL; -- begun, not finished: they are good for five minutes anyway
ALTER TABLE uploads ADD COLUMN key_id INTEGER; -- NULL once the file owns it
ALTER TABLE uploads DROP COLUMN wrapped_key;
