-- The keys of the service itself, each wrapped by the master key. One that is
-- replaced gets the next version. While the master key changes there is a row
-- for the old one and a row for the new one.
CREATE TABLE service_keys (
	purpose TEXT NOT NULL,
	version INTEGER NOT NULL, -- from 1
	master  TEXT NOT NULL,    -- name of the master key, which says nothing about it
	wrapped BLOB NOT NULL,
	PRIMARY KEY (purpose, version, master)
) STRICT, WITHOUT ROWID;
