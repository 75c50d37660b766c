PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES('master_key','c70dadc857d57b5246f0601e80d1522227eaaccb5a852d8ca6280e1159947cb5');
CREATE TABLE accounts (
	id             TEXT PRIMARY KEY,
	key_hash       BLOB NOT NULL, -- SHA-256 of the API key
	key_generation INTEGER NOT NULL,
	balance        TEXT NOT NULL,
	created_ns     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO accounts VALUES('alice.svc.testnet',X'ffdb071b3fd2e00dd6b5f9732f4240cef967d043fdb4693acb16a9012947cfda',1,'9308000000000000000000000',1795318876068092565);
CREATE TABLE groups (
	id             TEXT PRIMARY KEY,
	owner          TEXT NOT NULL REFERENCES accounts (id),
	joinable       INTEGER NOT NULL,
	join_expires   INTEGER,          -- ns; NULL = window closed
	join_max_uses  INTEGER,          -- NULL = unlimited
	join_uses      INTEGER NOT NULL DEFAULT 0,
	retention_days INTEGER,          -- NULL = forever
	key_version    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "groups" VALUES('g','alice.svc.testnet',0,NULL,NULL,0,NULL,1);
CREATE TABLE members (
	group_id TEXT NOT NULL REFERENCES groups (id),
	account  TEXT NOT NULL,
	since    INTEGER NOT NULL, -- ledger sequence
	PRIMARY KEY (group_id, account)
) STRICT, WITHOUT ROWID;
INSERT INTO members VALUES('g','alice.svc.testnet',2);
CREATE TABLE uploads (
	id          TEXT PRIMARY KEY,
	account     TEXT NOT NULL,
	group_id    TEXT NOT NULL,
	ref         TEXT NOT NULL,
	filename    TEXT NOT NULL,
	key_version INTEGER NOT NULL,
	blob_id     TEXT,           -- of a raw transfer
	blob_size   INTEGER,
	blob_sum    BLOB,
	result      TEXT,           -- answer of the finalize, JSON
	expires_ns  INTEGER NOT NULL
, key_id INTEGER) STRICT, WITHOUT ROWID;
INSERT INTO uploads VALUES('01a20158-07a6-74e0-bab5-e1e9aab4f686','alice.svc.testnet','g','bafy.svc.testnet/fastfs.svc.testnet/bb3ea2c021450b3d9e49166c7ccd4027b67bc038b12e3b0f5fc2cebfeb413d3e/01a20158-07a6-74dc-9285-6570067e61e3','kept.txt',1,NULL,NULL,NULL,'{"location":"bafy.svc.testnet/fastfs.svc.testnet/bb3ea2c021450b3d9e49166c7ccd4027b67bc038b12e3b0f5fc2cebfeb413d3e/01a20158-07a6-74dc-9285-6570067e61e3","cid":"bafy.svc.testnet/fastfs.svc.testnet/bb3ea2c021450b3d9e49166c7ccd4027b67bc038b12e3b0f5fc2cebfeb413d3e/01a20158-07a6-74dc-9285-6570067e61e3","trans_id":"07da777a635f59bbbefc0cedad46e1acf735e60a7ba1cd6c79744bde433b5f3f","file_hash":"371b625f606be71e61bfcd0153d5c8c54756f084076209403e1eeda0e7d571c0","seq":3,"timestamp":"1795318876071654218","fee":"39000000000000000000000"}',1795319176071727678,NULL);
CREATE TABLE files (
	ref           TEXT PRIMARY KEY,
	group_id      TEXT NOT NULL REFERENCES groups (id),
	seq           INTEGER NOT NULL, -- of the upload
	changed_seq   INTEGER NOT NULL, -- of the newest record about the file
	tx_id         TEXT NOT NULL,
	uploader      TEXT NOT NULL,
	file_hash     TEXT NOT NULL,
	time_ns       INTEGER NOT NULL,
	filename      TEXT NOT NULL,
	original_size INTEGER,
	content_type  TEXT NOT NULL,
	format        TEXT NOT NULL,    -- as it was sent; 'null' when none was
	blob_id       TEXT NOT NULL UNIQUE,
	blob_size     INTEGER NOT NULL,
	blob_sum      BLOB NOT NULL,
	key_version   INTEGER NOT NULL,
	deleted_ns    INTEGER,
	deleted_by    TEXT,
	deleted_why   TEXT
, backend TEXT NOT NULL DEFAULT 'FastFS', key_id INTEGER) STRICT, WITHOUT ROWID;
INSERT INTO files VALUES('bafy.svc.testnet/fastfs.svc.testnet/bb3ea2c021450b3d9e49166c7ccd4027b67bc038b12e3b0f5fc2cebfeb413d3e/01a20158-07a6-74dc-9285-6570067e61e3','g',3,3,'07da777a635f59bbbefc0cedad46e1acf735e60a7ba1cd6c79744bde433b5f3f','alice.svc.testnet','371b625f606be71e61bfcd0153d5c8c54756f084076209403e1eeda0e7d571c0',1795318876071654218,'kept.txt',12,'','null','ed44fdf06e46103d0289a0043a075ec0',40,X'678ac104e898b66abf31ac447379827e0dd359514f740ef1db9b9d95912007a2',1,NULL,NULL,NULL,'FastFS',1);
INSERT INTO files VALUES('bafybeihmssliyalj2jxwpph2h72r7xbbt37jd3wuax7bew6r76bti5wd7m','g',4,4,'e52e9e3ca0947f3cf12cec43f6ca7f57e38c36407ee4823e911d35866b4a81c7','alice.svc.testnet','5842e8c261c6f246f2e1819da7ff4a214ba86853f4a7a42f26d7eddd48d2b98d',1795318876072727259,'legacy.txt',14,'','null','c05964985628107f3942c4aa5be3a78f',42,X'cf129307fce8615ba3a4ecbc35f7a37db4a6e532e169b28d602de55b4a5bf186',1,NULL,NULL,NULL,'Ipfs',2);
CREATE TABLE claims (
	account  TEXT NOT NULL,
	claim_id TEXT NOT NULL,
	ref      TEXT NOT NULL,
	time_ns  INTEGER NOT NULL,
	PRIMARY KEY (account, claim_id, ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE ledger (
	seq       INTEGER PRIMARY KEY,
	tx_id     TEXT NOT NULL UNIQUE,
	kind      TEXT NOT NULL,
	time_ns   INTEGER NOT NULL,
	account   TEXT NOT NULL,
	group_id  TEXT NOT NULL,
	ref       TEXT NOT NULL,
	file_hash TEXT NOT NULL,
	detail    TEXT NOT NULL,
	fee       TEXT NOT NULL,
	request   TEXT NOT NULL,
	prev_hash BLOB NOT NULL,
	hash      BLOB NOT NULL
) STRICT;
INSERT INTO ledger VALUES(1,'e77122890d87bded3107dcb0219d21a73fb420dc4067a8d6889df3425448b32e','create_account',1795318876068134815,'alice.svc.testnet','','','','10000000000000000000000000','0','',X'0000000000000000000000000000000000000000000000000000000000000000',X'e090dd279fa5664ed848398f4c5be7548984bc6e64800a8e283ebf4a1c7eef5f');
INSERT INTO ledger VALUES(2,'864853f575be8627248766e86306094141055f7de2f9ee223a81101303edfc2b','register_group',1795318876069765816,'alice.svc.testnet','g','','','','640000000000000000000000','3a7920c01ded7a76',X'e090dd279fa5664ed848398f4c5be7548984bc6e64800a8e283ebf4a1c7eef5f',X'2e569892e8926573cf58078edcf2f46320b9925d724c6ec08278d0c2518bef62');
INSERT INTO ledger VALUES(3,'07da777a635f59bbbefc0cedad46e1acf735e60a7ba1cd6c79744bde433b5f3f','record_transaction',1795318876071654218,'alice.svc.testnet','g','bafy.svc.testnet/fastfs.svc.testnet/bb3ea2c021450b3d9e49166c7ccd4027b67bc038b12e3b0f5fc2cebfeb413d3e/01a20158-07a6-74dc-9285-6570067e61e3','371b625f606be71e61bfcd0153d5c8c54756f084076209403e1eeda0e7d571c0','kept.txt','39000000000000000000000','cc601bb1556b7bb3',X'2e569892e8926573cf58078edcf2f46320b9925d724c6ec08278d0c2518bef62',X'0f2c33c9b86d6fb8efa10e99e8c6aa4df79b8fc60cfb2f463024549835cedb8f');
INSERT INTO ledger VALUES(4,'e52e9e3ca0947f3cf12cec43f6ca7f57e38c36407ee4823e911d35866b4a81c7','record_transaction',1795318876072727259,'alice.svc.testnet','g','bafybeihmssliyalj2jxwpph2h72r7xbbt37jd3wuax7bew6r76bti5wd7m','5842e8c261c6f246f2e1819da7ff4a214ba86853f4a7a42f26d7eddd48d2b98d','legacy.txt','0','',X'0f2c33c9b86d6fb8efa10e99e8c6aa4df79b8fc60cfb2f463024549835cedb8f',X'bcb7a80418dc1701117e5365216875de9cc73d72def5790a8a17d4b4d0f4fdcd');
INSERT INTO ledger VALUES(5,'bf679b4cfc42c6242e84341b97995c344d3584654a7293b3fc3bf3a2340372bd','claim_token',1795318876073432069,'alice.svc.testnet','g','bafybeihmssliyalj2jxwpph2h72r7xbbt37jd3wuax7bew6r76bti5wd7m','','','13000000000000000000000','896aaffa6fb2749e',X'bcb7a80418dc1701117e5365216875de9cc73d72def5790a8a17d4b4d0f4fdcd',X'5b952a7759b70cf72c9328ed4e85354bc8bc87917c401373062cac6a42e6b9ab');
CREATE TABLE sign_in_links (
	hash       BLOB PRIMARY KEY, -- SHA-256
	account    TEXT NOT NULL REFERENCES accounts (id),
	expires_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE web_sessions (
	hash       BLOB PRIMARY KEY, -- SHA-256 of the cookie's secret
	account    TEXT NOT NULL REFERENCES accounts (id),
	created_ns INTEGER NOT NULL,
	expires_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE identities (
	issuer  TEXT NOT NULL,
	subject TEXT NOT NULL,
	account TEXT NOT NULL REFERENCES accounts (id),
	PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE TABLE leases (
	name     TEXT PRIMARY KEY,
	holder   TEXT NOT NULL,
	until_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE file_keys (
	id          INTEGER PRIMARY KEY,
	wrapped_key BLOB NOT NULL,   -- zeros once destroyed; always of one size
	free        INTEGER NOT NULL -- may be taken by another file
) STRICT;
INSERT INTO file_keys VALUES(1,X'7e06b6edf08c4c88db863b3f2bbb5fc3a2955a119eb76a27cfef131eba0df6984369f8cc6548795843554a9225df5838e2b5b52af74b86802a0f6421',0);
INSERT INTO file_keys VALUES(2,X'64c1d86420d6e9ce1c7e3384c630efacf9a6ea76d3e217f49ed265b88a74abaf87f69e47e2951ec2b4abfa5f748bbf500f033ad5c989cdea62b298be',0);
CREATE TABLE free_changes (
	account TEXT PRIMARY KEY,
	day     INTEGER NOT NULL,
	made    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_account ON members (account, group_id);
CREATE INDEX uploads_by_expiry ON uploads (expires_ns);
CREATE INDEX files_by_group ON files (group_id, seq);
CREATE INDEX files_by_change ON files (group_id, changed_seq);
CREATE INDEX claims_by_time ON claims (time_ns);
CREATE INDEX ledger_by_group ON ledger (group_id, seq);
CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE INDEX ledger_by_account ON ledger (account, seq);
CREATE INDEX file_keys_free ON file_keys (id) WHERE free;
CREATE INDEX uploads_open ON uploads (account) WHERE result IS NULL;
CREATE INDEX ledger_revocations ON ledger (detail, group_id, seq) WHERE kind = 'revoke_group_member';
COMMIT;
PRAGMA user_version = 6;
