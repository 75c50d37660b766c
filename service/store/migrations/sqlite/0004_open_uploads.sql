-- Every upload begins by counting the account's unfinished ones; the table also
-- holds the answers of the finished ones for a while.
CREATE INDEX uploads_open ON uploads (account) WHERE result IS NULL;
