-- One index of names serves the thinning of versions too: a save changes one less.
DROP INDEX files_to_thin;
DROP INDEX files_by_name;
CREATE INDEX files_by_name ON files (group_id, substr(filename, 1, 200), seq, versioned) WHERE deleted_ns IS NULL;
