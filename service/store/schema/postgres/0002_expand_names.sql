-- The trees of living names of groups (service/LEDGER.md), in pages. They follow from the tables: a group without one
-- gets one when somebody asks for a proof.
CREATE TABLE name_trees (
	group_id TEXT PRIMARY KEY,
	build    BIGINT NOT NULL, -- whose pages they are
	seq      BIGINT NOT NULL, -- the tree has what all records up to it changed
	number   BIGINT NOT NULL, -- in the chain, of that record
	moved    BIGINT NOT NULL, -- up to which seq folders are renamed in it
	root     BYTEA NOT NULL,
	top      BIGINT NOT NULL, -- the page with the root; 0 = nothing lives
	last     BIGINT NOT NULL  -- the largest number of a page
);

CREATE TABLE name_pages (
	group_id TEXT NOT NULL,
	build    BIGINT NOT NULL,
	page     BIGINT NOT NULL,
	data     BYTEA NOT NULL,
	PRIMARY KEY (group_id, build, page)
);
