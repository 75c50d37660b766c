-- Since when the operator lets an account do nothing, in ns; NULL = it may.
ALTER TABLE accounts ADD COLUMN disabled_ns INTEGER;
