-- When a key of the service was made, in ns; 0 = before this was noted.
ALTER TABLE service_keys ADD COLUMN made_ns BIGINT NOT NULL DEFAULT 0;

-- The ids of uploads in one request. They stay for ever, so that an old copy of an upload
-- brings nothing back. seq is that of the record, which has account, group and reference.
CREATE TABLE spent_uploads (
	id  BYTEA PRIMARY KEY, -- 16 bytes that the client chose
	seq BIGINT NOT NULL
);
