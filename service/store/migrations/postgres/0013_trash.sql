-- Names that were removed and can be brought back. trash_ns: since when, NULL = the
-- file is not in the trash; trash_until_ns: when its key is destroyed, NULL = when
-- the owner of the group says so.
ALTER TABLE files ADD COLUMN trash_ns       BIGINT;
ALTER TABLE files ADD COLUMN trash_by       TEXT COLLATE "C";
ALTER TABLE files ADD COLUMN trash_until_ns BIGINT;
-- The index files_by_name follows in 0015.
CREATE INDEX files_in_trash ON files (group_id, trash_by) WHERE trash_ns IS NOT NULL;
CREATE INDEX files_by_trash_end ON files (trash_until_ns) WHERE trash_until_ns IS NOT NULL;

-- How long a removed file can be brought back, and who removes files of others:
-- 'uploader' or 'writers'.
ALTER TABLE groups ADD COLUMN trash_days BIGINT NOT NULL DEFAULT 30;
ALTER TABLE groups ADD COLUMN trash_who  TEXT COLLATE "C" NOT NULL DEFAULT 'uploader';
