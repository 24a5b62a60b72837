-- +goose Up
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
