-- What the vault said of the members of a group, with its MAC: a vault that was started anew goes on from there. A group
-- without a row is read from its first record on.
CREATE TABLE group_states (
	group_id TEXT COLLATE "C" PRIMARY KEY,
	state    BYTEA NOT NULL
);
