-- A save looks for the newest version of its name: that which was uploaded last, or one of the few that changed since their upload.
CREATE INDEX files_by_renaming ON files (group_id, substr(filename, 1, 200), changed_seq) WHERE changed_seq <> seq AND deleted_ns IS NULL AND trash_ns IS NULL;
