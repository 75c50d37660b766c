-- The keys of the service itself, each wrapped by the master key. One that is
-- replaced gets the next version. While the master key changes there is a row
-- for the old one and a row for the new one.
CREATE TABLE service_keys (
	purpose TEXT COLLATE "C" NOT NULL,
	version BIGINT NOT NULL, -- from 1
	master  TEXT COLLATE "C" NOT NULL, -- name of the master key, which says nothing about it
	wrapped BYTEA NOT NULL,
	PRIMARY KEY (purpose, version, master)
);
