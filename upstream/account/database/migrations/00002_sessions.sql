-- +goose Up
-- Browsers that are signed in. The id is the hash of the cookie's token,
-- so that who reads this table can sign in as nobody. Attempts counts the
-- passwords that were tried from within the session.
CREATE TABLE sessions (
	id               TEXT   NOT NULL PRIMARY KEY,
	account          TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
	password_version BIGINT NOT NULL,
	agent            TEXT   NOT NULL,
	created_at       BIGINT NOT NULL,
	seen_at          BIGINT NOT NULL,
	expires_at       BIGINT NOT NULL,
	attempts         BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX sessions_account ON sessions (account);

-- +goose Down
DROP TABLE sessions;
