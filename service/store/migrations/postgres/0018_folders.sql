-- Renamed folders are looked for in the long chain of a group with every rename_folder.
CREATE INDEX ledger_folders ON ledger (group_id, seq) WHERE kind = 'rename_folder';
