-- One-time links that sign in to the account page. Only hashes of secrets are kept.
CREATE TABLE sign_in_links (
	hash       BYTEA PRIMARY KEY, -- SHA-256
	account    TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
	expires_ns BIGINT NOT NULL
);

CREATE TABLE web_sessions (
	hash       BYTEA PRIMARY KEY, -- SHA-256 of the cookie's secret
	account    TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
	created_ns BIGINT NOT NULL,
	expires_ns BIGINT NOT NULL
);

-- Who a subject of an OpenID Connect issuer is here.
CREATE TABLE identities (
	issuer  TEXT COLLATE "C" NOT NULL,
	subject TEXT COLLATE "C" NOT NULL,
	account TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
	PRIMARY KEY (issuer, subject)
);

-- Work that one process does for all.
CREATE TABLE leases (
	name     TEXT COLLATE "C" PRIMARY KEY,
	holder   TEXT COLLATE "C" NOT NULL,
	until_ns BIGINT NOT NULL
);

-- FastFS, or Ipfs for references from before this service.
ALTER TABLE files ADD COLUMN backend TEXT COLLATE "C" NOT NULL DEFAULT 'FastFS';
CREATE INDEX ledger_by_account ON ledger (account, seq);
