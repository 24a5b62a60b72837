-- +goose Up
-- One schema for SQLite and PostgreSQL: only types and clauses that both
-- have. Times are milliseconds since 1970 in UTC.
--
-- logins_end is the version of a password whose change has login tokens to
-- end at the gate; 0 if there is none. changes_until limits how often a
-- person changes a password: see account.Credential. operator is true for a
-- person who administers all accounts on the web pages.
CREATE TABLE accounts (
	id               TEXT   NOT NULL PRIMARY KEY,
	email            TEXT   NOT NULL UNIQUE,
	password_hash    TEXT   NOT NULL,
	password_version BIGINT NOT NULL,
	created_at       BIGINT NOT NULL,
	updated_at       BIGINT NOT NULL,
	logins_end       BIGINT NOT NULL DEFAULT 0,
	changes_until    BIGINT NOT NULL DEFAULT 0,
	operator         BOOLEAN NOT NULL DEFAULT FALSE
);

CREATE INDEX accounts_logins_end ON accounts (id) WHERE logins_end > 0;

-- Browsers that are signed in. The id is the hash of the cookie's token: a
-- reader of this table cannot sign in. Attempts counts the passwords that
-- were tried in the session. portal is true for a visit by a link of the
-- gate: its account can be one that only the gate has, and then owner is
-- NULL.
CREATE TABLE sessions (
	id               TEXT   NOT NULL PRIMARY KEY,
	account          TEXT   NOT NULL,
	owner            TEXT   REFERENCES accounts (id) ON DELETE CASCADE,
	password_version BIGINT NOT NULL,
	agent            TEXT   NOT NULL,
	created_at       BIGINT NOT NULL,
	seen_at          BIGINT NOT NULL,
	expires_at       BIGINT NOT NULL,
	attempts         BIGINT NOT NULL DEFAULT 0,
	portal           BOOLEAN NOT NULL
);

CREATE INDEX sessions_account ON sessions (account);
CREATE INDEX sessions_owner ON sessions (owner);

-- Portal links that were used. They stay until no process accepts them.
CREATE TABLE spent_links (
	id               TEXT   NOT NULL PRIMARY KEY,
	expires_at       BIGINT NOT NULL
);

-- Links that set a new password, one for each account. The id is the hash of
-- the token in the link. A link works while the account has this version of
-- the password.
CREATE TABLE resets (
	account          TEXT   NOT NULL PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
	id               TEXT   NOT NULL UNIQUE,
	password_version BIGINT NOT NULL,
	expires_at       BIGINT NOT NULL
);

-- +goose Down
DROP TABLE resets;
DROP TABLE spent_links;
DROP TABLE sessions;
DROP TABLE accounts;
