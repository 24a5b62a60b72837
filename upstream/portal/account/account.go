// Package account stores who may log in: e-mail addresses and password
// hashes, and nothing else.
//
// The gate stores plans, keys, counts and whether an account is disabled.
// This package stores e-mails and passwords and calls the gate's control
// API. Both use the same account id. A change of both is made at the gate
// first and stored here afterwards: if the gate is unreachable, the change
// fails with a clear error and stores nothing. The exception is a change of
// password. It is stored first, and the gate ends the login tokens as soon
// as it is reachable. No database transaction is open during a call of the
// gate.
//
// Service has all operations. Store is the database; package database
// implements it for SQLite and PostgreSQL.
package account

import (
	"context"
	"errors"
	"time"
)

// Errors that callers distinguish, alone or wrapped.
var (
	// ErrNotFound means that there is no such account.
	ErrNotFound = errors.New("no such account")

	// ErrEmailTaken means that another account has this e-mail address.
	ErrEmailTaken = errors.New("an account with this e-mail address exists")

	// ErrEmail means that a text is not an e-mail address.
	ErrEmail = errors.New("invalid e-mail address")

	// ErrPassword means that a new password is not allowed.
	ErrPassword = errors.New("invalid password")

	// ErrLoginsLive means that the password is changed, but older login
	// tokens still work because the gate did not answer. The error that
	// wraps it has the cause. The tokens end as soon as the gate answers.
	ErrLoginsLive = errors.New("the password is changed; older login tokens end as soon as the gate is reachable")

	// ErrTooManyChanges means that a person changed a password more often
	// than allowed. Identity.ChangeIn returns the wait.
	ErrTooManyChanges = errors.New("the password was changed too often")

	// ErrOvertaken means that another request changed the password, or
	// deleted the account, in the meantime.
	ErrOvertaken = errors.New("the password was changed in the meantime")

	// ErrCredentials means that e-mail and password do not match an active
	// account. It does not say why.
	ErrCredentials = errors.New("e-mail or password is wrong")

	// ErrPlanRequired means that the account's plan has no access to the
	// API, so no token is issued.
	ErrPlanRequired = errors.New("the account's plan has no access to the API")

	// ErrBusy means that the queue of passwords to check is too long.
	ErrBusy = errors.New("too many passwords are in the queue")

	// ErrDatabase means that the database did not answer or failed. A change
	// may have been made unless the error says otherwise.
	ErrDatabase = errors.New("the account database failed")

	// ErrGate means that the gate is unreachable or failed. Nothing was
	// changed unless the error says so.
	ErrGate = errors.New("calling the gate failed")
)

// Account is an account that can log in.
type Account struct {
	// ID is "acc_" and 20 letters and digits. The gate uses the same id.
	ID string `json:"account"`
	// Email is unique among the accounts.
	Email Email `json:"email"`
	// CreatedAt and UpdatedAt are in UTC, to the millisecond. UpdatedAt
	// is when the password was last set.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Identity is an account with the version of its password. A session ends
// when the version changes.
type Identity struct {
	Account
	// Version counts the changes of the password. Hashing the same password
	// at another cost does not change it.
	Version int64
	// Operator is true for a person who administers all accounts on the web
	// pages.
	Operator bool
	// ChangesUntil is the time up to which the allowance of password changes
	// is used: see changeEvery. Zero for none.
	ChangesUntil time.Time
}

// Credential is an Identity with its password hash.
type Credential struct {
	Identity
	// Hash is the PHC string of the password. Empty: the account was imported
	// and has none yet.
	Hash string
	// LoginsEnd is not 0 while the gate still has to end login tokens: then
	// it is the Version that replaced their password.
	LoginsEnd int64
}

// Store is a database of accounts. Its methods are safe for concurrent use. Each
// change is one short transaction. Each method answers within seconds, also if
// its context has no deadline. Errors other than the documented ones wrap
// ErrDatabase; then the change may have been made.
type Store interface {
	// ByEmail returns one account or ErrNotFound.
	ByEmail(ctx context.Context, email Email) (Credential, error)

	// ByID returns one account or ErrNotFound.
	ByID(ctx context.Context, id string) (Credential, error)

	// List returns all accounts in the order of their e-mail addresses.
	List(ctx context.Context) ([]Credential, error)

	// LoginsToEnd returns up to limit accounts after an id, in the order of
	// their ids, whose LoginsEnd is not 0. They have no more than these two.
	LoginsToEnd(ctx context.Context, after string, limit int) ([]Credential, error)

	// ByReset returns the account of a reset link, or ErrNotFound if the link
	// is unknown, expired or for another version of the password.
	ByReset(ctx context.Context, id string, now time.Time) (Credential, error)

	// Add stores a new account with its password's hash, or returns
	// ErrEmailTaken.
	Add(ctx context.Context, account Account, hash string) error

	// SetPassword stores Hash, UpdatedAt and ChangesUntil, increments the
	// version and sets LoginsEnd to the new version. It returns ErrOvertaken
	// if the account has another version than c.
	SetPassword(ctx context.Context, c Credential) error

	// SetOperator stores whether an account is an operator's, or returns
	// ErrNotFound.
	SetOperator(ctx context.Context, id string, operator bool) error

	// LoginsEnded sets LoginsEnd to 0 if it is that version. Otherwise it
	// does nothing: a later change has more tokens to end.
	LoginsEnded(ctx context.Context, id string, version int64) error

	// Remove deletes an account, or returns ErrNotFound.
	Remove(ctx context.Context, id string) error

	// Rehash stores another hash of the same password. It does nothing if
	// the account has another version.
	Rehash(ctx context.Context, id string, version int64, hash string) error

	// SetReset stores the reset link of an account for the version that its
	// password has now, in place of an older link. It returns ErrNotFound for
	// an unknown account.
	SetReset(ctx context.Context, account, id string, expires time.Time) error

	// RemoveReset deletes the reset link of an account, if it has one.
	RemoveReset(ctx context.Context, account string) error

	// Prune deletes links and sessions that have ended.
	Prune(ctx context.Context, now time.Time) error
}
