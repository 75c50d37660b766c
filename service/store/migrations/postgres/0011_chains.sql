-- Records have a place in the chain of their group or account. Those from before
-- (layout 1) have none: chain '', number 0. tags is a JSON list of names and
-- values in turns, '' without any.
ALTER TABLE ledger ADD COLUMN chain  TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE ledger ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN tags   TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX ledger_by_chain ON ledger (group_id, seq) WHERE kind <> 'claim_token';

-- Where each chain ends. For a ledger from before, the service fills it when it
-- opens the database.
CREATE TABLE chains (
	chain  TEXT COLLATE "C" PRIMARY KEY,
	number BIGINT NOT NULL, -- of its records
	hash   BYTEA NOT NULL,
	old    BIGINT NOT NULL  -- how many of them have layout 1
);
