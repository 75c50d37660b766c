-- How many changes without a price an account made on the day it made the last
-- one (days since the epoch, UTC).
CREATE TABLE free_changes (
	account TEXT PRIMARY KEY,
	day     INTEGER NOT NULL,
	made    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
