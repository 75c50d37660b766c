-- How many changes without a price an account made on the day it made the last
-- one (days since the epoch, UTC).
CREATE TABLE free_changes (
	account TEXT COLLATE "C" PRIMARY KEY,
	day     BIGINT NOT NULL,
	made    BIGINT NOT NULL
);
