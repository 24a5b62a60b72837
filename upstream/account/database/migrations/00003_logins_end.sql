-- +goose Up
-- logins_end is the version of a password whose change has login tokens to
-- end at the gate, which has not confirmed it yet; 0 if there is none.
-- changes_until limits how often a person changes a password: see
-- account.Credential.
ALTER TABLE accounts ADD COLUMN logins_end BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN changes_until BIGINT NOT NULL DEFAULT 0;

CREATE INDEX accounts_logins_end ON accounts (id) WHERE logins_end > 0;

-- +goose Down
DROP INDEX accounts_logins_end;
ALTER TABLE accounts DROP COLUMN changes_until;
ALTER TABLE accounts DROP COLUMN logins_end;
