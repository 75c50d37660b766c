-- A save changes few pages. The index of ids is written for many records at once: an id is a hash,
-- so that each has a page of its own. The chain of a group and its retrievals are in an index each.
ALTER TABLE ledger DROP CONSTRAINT ledger_tx_id_key;
DROP INDEX ledger_by_group;
CREATE INDEX ledger_claims ON ledger (group_id, seq) WHERE kind = 'claim_token';

-- The beginnings of the ids of all records up to the last sequence that 2048 divides.
CREATE TABLE record_ids (
	beginning TEXT COLLATE "C" NOT NULL,
	seq       BIGINT NOT NULL,
	PRIMARY KEY (beginning, seq)
);
INSERT INTO record_ids SELECT substr(tx_id, 1, 10), seq FROM ledger WHERE seq <= (SELECT max(seq) / 2048 * 2048 FROM ledger) ORDER BY 1;
CREATE FUNCTION index_record_ids() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO record_ids SELECT substr(tx_id, 1, 10), seq FROM ledger WHERE seq > NEW.seq - 2048 AND seq <= NEW.seq ORDER BY 1;
	RETURN NULL;
END $$;
CREATE TRIGGER ledger_ids AFTER INSERT ON ledger FOR EACH ROW WHEN (NEW.seq % 2048 = 0) EXECUTE FUNCTION index_record_ids();
