-- What would destroy many files waits. The retention window that a group gets, and
-- when, in ns; NULL = none waits.
ALTER TABLE groups ADD COLUMN pending_retention BIGINT;
ALTER TABLE groups ADD COLUMN pending_retention_ns BIGINT;

-- Files that are deleted when their time comes, unless somebody takes that back.
CREATE TABLE pending_deletions (
	ref      TEXT COLLATE "C" PRIMARY KEY,
	group_id TEXT COLLATE "C" NOT NULL REFERENCES groups (id),
	account  TEXT COLLATE "C" NOT NULL, -- who asked
	due_ns   BIGINT NOT NULL
);
CREATE INDEX pending_deletions_by_group ON pending_deletions (group_id, account);
CREATE INDEX pending_deletions_by_time ON pending_deletions (due_ns);

-- Deletions of the last day that did not wait, to count them.
CREATE TABLE recent_deletions (
	group_id TEXT COLLATE "C" NOT NULL,
	account  TEXT COLLATE "C" NOT NULL,
	time_ns  BIGINT NOT NULL,
	ref      TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (group_id, account, time_ns, ref)
);
