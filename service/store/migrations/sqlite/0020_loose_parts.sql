-- Since the record of this sequence, blocks of a part may be of no use any more: a file that
-- used the part ended, or its only file never used all of it. NULL = every block is in use.
ALTER TABLE parts ADD COLUMN loose INTEGER;
CREATE INDEX parts_loose ON parts (loose) WHERE loose IS NOT NULL;
