-- An entry of an index has at most 2,704 bytes, a name has up to 4,096: an index of whole
-- names refused long ones.
DROP INDEX IF EXISTS files_by_name;
CREATE INDEX files_by_name ON files (group_id, substr(filename, 1, 200)) WHERE deleted_ns IS NULL;
