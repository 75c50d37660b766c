-- The canonical text of the attributes of a file: its time, execute bit, link target and
-- extended attributes; '' = none.
ALTER TABLE files ADD COLUMN attributes TEXT NOT NULL DEFAULT '';
