-- What a member may do; the owner of a group is in its own row.
ALTER TABLE members ADD COLUMN role TEXT NOT NULL DEFAULT 'writer';
-- What accounts become that join by themselves.
ALTER TABLE groups ADD COLUMN join_role TEXT NOT NULL DEFAULT 'writer';
