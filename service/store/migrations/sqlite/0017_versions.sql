-- Which older versions of its names a group keeps: 'all', a number of versions, or days
-- such as '30d'; the setting that waits, and when it begins, in ns.
ALTER TABLE groups ADD COLUMN versions            TEXT NOT NULL DEFAULT 'all';
ALTER TABLE groups ADD COLUMN pending_versions    TEXT;
ALTER TABLE groups ADD COLUMN pending_versions_ns INTEGER;
-- The sweep has looked at the names of files that changed up to this sequence, and of
-- those that the next change changed at those uploaded up to thinned_file.
ALTER TABLE groups ADD COLUMN thinned_seq         INTEGER NOT NULL DEFAULT 0;
ALTER TABLE groups ADD COLUMN thinned_file        INTEGER NOT NULL DEFAULT 0;
CREATE INDEX groups_thinned ON groups (id) WHERE versions <> 'all';

-- The client that uploaded the file knows that names have versions; all files from before
-- stay.
ALTER TABLE files ADD COLUMN versioned INTEGER NOT NULL DEFAULT 0;
DROP INDEX files_by_name;
CREATE INDEX files_by_name ON files (group_id, substr(filename, 1, 200), seq) WHERE deleted_ns IS NULL;
CREATE INDEX files_to_thin ON files (group_id, substr(filename, 1, 200), seq) WHERE deleted_ns IS NULL AND versioned;
