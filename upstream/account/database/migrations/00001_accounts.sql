-- +goose Up
-- One schema for SQLite and PostgreSQL: only types and clauses that both
-- have. Times are milliseconds since 1970 in UTC.
CREATE TABLE accounts (
	id               TEXT   NOT NULL PRIMARY KEY,
	email            TEXT   NOT NULL UNIQUE,
	password_hash    TEXT   NOT NULL,
	password_version BIGINT NOT NULL,
	created_at       BIGINT NOT NULL,
	updated_at       BIGINT NOT NULL
);

-- +goose Down
DROP TABLE accounts;
