-- The trees of living names of groups (service/LEDGER.md), in pages. They follow from the tables: a group without one
-- gets one when somebody asks for a proof.
CREATE TABLE name_trees (
	group_id TEXT PRIMARY KEY,
	build    INTEGER NOT NULL, -- whose pages they are
	seq      INTEGER NOT NULL, -- the tree has what all records up to it changed
	number   INTEGER NOT NULL, -- in the chain, of that record
	moved    INTEGER NOT NULL, -- up to which seq folders are renamed in it
	root     BLOB NOT NULL,
	top      INTEGER NOT NULL, -- the page with the root; 0 = nothing lives
	last     INTEGER NOT NULL  -- the largest number of a page
) STRICT, WITHOUT ROWID;

CREATE TABLE name_pages (
	group_id TEXT NOT NULL,
	build    INTEGER NOT NULL,
	page     INTEGER NOT NULL,
	data     BLOB NOT NULL,
	PRIMARY KEY (group_id, build, page)
) STRICT;
