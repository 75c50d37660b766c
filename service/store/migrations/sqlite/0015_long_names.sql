-- As in PostgreSQL, where the index of whole names refused long ones.
DROP INDEX files_by_name;
CREATE INDEX files_by_name ON files (group_id, substr(filename, 1, 200)) WHERE deleted_ns IS NULL;
