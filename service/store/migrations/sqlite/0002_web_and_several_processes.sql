-- One-time links that sign in to the account page. Only hashes of secrets are kept.
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

-- Who a subject of an OpenID Connect issuer is here.
CREATE TABLE identities (
	issuer  TEXT NOT NULL,
	subject TEXT NOT NULL,
	account TEXT NOT NULL REFERENCES accounts (id),
	PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;

-- Work that one process does for all.
CREATE TABLE leases (
	name     TEXT PRIMARY KEY,
	holder   TEXT NOT NULL,
	until_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- FastFS, or Ipfs for references from before this service.
ALTER TABLE files ADD COLUMN backend TEXT NOT NULL DEFAULT 'FastFS';
CREATE INDEX ledger_by_account ON ledger (account, seq);
