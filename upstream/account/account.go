// Package account knows who may log in: e-mail addresses and password
// hashes, and nothing else.
//
// There is one truth for everything. The gate alone knows plans, keys,
// counts and who is disabled; this package alone knows e-mails and
// passwords, and asks the gate through its control API. The two share an
// account's id. A change that concerns both is made at the gate first and
// stored here afterwards, so that a gate that cannot be reached means a
// clear error and nothing stored. The exception is a change of password:
// it is stored first, and the gate ends the login tokens as soon as it can
// be reached. No transaction of the database is open while the gate is
// asked.
//
// Service is the way in. The database behind it is an adapter that
// implements Store; package database has it for SQLite and PostgreSQL.
package account

import (
	"context"
	"errors"
	"time"
)

// Errors that callers tell apart, alone or wrapped.
var (
	// ErrNotFound says that there is no such account.
	ErrNotFound = errors.New("no such account")

	// ErrEmailTaken says that another account has this e-mail address.
	ErrEmailTaken = errors.New("an account with this e-mail address exists")

	// ErrEmail says that a text is no e-mail address.
	ErrEmail = errors.New("invalid e-mail address")

	// ErrPassword says that a password may not be chosen.
	ErrPassword = errors.New("invalid password")

	// ErrLoginsLive says that a password was changed, and that login
	// tokens from before the change still work, because the gate did not
	// answer: the error that wraps it tells why. They end as soon as the
	// gate answers. It is not a failure to change the password.
	ErrLoginsLive = errors.New("the password is changed; login tokens made before end as soon as the gate can be reached")

	// ErrTooManyChanges says that a person changed a password more often
	// than allowed: Identity.ChangeIn tells when it is allowed again.
	ErrTooManyChanges = errors.New("the password was changed too often")

	// ErrOvertaken says that a password was changed by another request in
	// the meantime, or its account deleted.
	ErrOvertaken = errors.New("the password was changed in the meantime")

	// ErrCredentials says that e-mail and password do not open an
	// account. It does not say why.
	ErrCredentials = errors.New("e-mail or password is wrong")

	// ErrPlanRequired says that the account's plan gives no access to the
	// API, so that no token is issued.
	ErrPlanRequired = errors.New("the account's plan has no access to the API")

	// ErrBusy says that more passwords wait to be checked than the machine
	// can check in a reasonable time.
	ErrBusy = errors.New("too many passwords wait to be checked")

	// ErrGate says that the gate could not be reached or could not do its
	// work. Nothing was changed, unless the error says what was.
	ErrGate = errors.New("asking the gate failed")
)

// Account is somebody who can log in.
type Account struct {
	// ID is "acc_" and 20 base62 characters. It is what the gate knows.
	ID string
	// Email is unique among the accounts.
	Email Email
	// CreatedAt and UpdatedAt are in UTC, to the millisecond. UpdatedAt
	// is when the password was last set.
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Credential is an account with what proves it.
type Credential struct {
	Account
	// Hash is the PHC string of the password.
	Hash string
	// Version counts the passwords that the account has had. It stays the
	// same when the same password is hashed again at another cost.
	Version int64
	// LoginsEnd is the Version with which login tokens from before it are
	// to end, while the gate has not confirmed that they have; otherwise 0.
	LoginsEnd int64
	// ChangesUntil is the time up to which the account has used its
	// allowance of password changes: see changeEvery. Zero for none.
	ChangesUntil time.Time
}

// PasswordChange is a password to store.
type PasswordChange struct {
	ID string // of the account
	// Version is that of the password to replace.
	Version int64
	// Hash is the PHC string of the new password.
	Hash string
	// At becomes the account's UpdatedAt.
	At time.Time
	// ChangesUntil becomes the Credential's.
	ChangesUntil time.Time
}

// Store keeps accounts. Its methods are safe for concurrent use.
type Store interface {
	Reader
	Writer
}

// Reader finds accounts.
type Reader interface {
	// ByEmail returns one account or ErrNotFound.
	ByEmail(ctx context.Context, email Email) (Credential, error)

	// ByID returns one account or ErrNotFound.
	ByID(ctx context.Context, id string) (Credential, error)

	// List returns up to limit accounts whose e-mail address sorts after
	// the given one, in the order of their addresses.
	List(ctx context.Context, after Email, limit int) ([]Account, error)

	// LoginsToEnd returns the ids of up to limit accounts whose LoginsEnd
	// is not 0.
	LoginsToEnd(ctx context.Context, limit int) ([]string, error)
}

// Writer changes accounts. Each change is one short transaction. An error
// that is not among those named leaves open whether the change was made.
type Writer interface {
	// Add stores a new account with its password's hash, or returns
	// ErrEmailTaken.
	Add(ctx context.Context, account Account, hash string) error

	// SetPassword stores another password, counts up the version and sets
	// LoginsEnd to the new version, or returns ErrOvertaken if the
	// account's password is no longer the one of the change's version.
	SetPassword(ctx context.Context, change PasswordChange) error

	// LoginsEnded sets LoginsEnd to 0 if it is that version, and otherwise
	// does nothing: a later change has more to end.
	LoginsEnded(ctx context.Context, id string, version int64) error

	// Remove deletes an account, or returns ErrNotFound.
	Remove(ctx context.Context, id string) error

	// Rehash stores another hash of the same password. It does nothing
	// if the password is no longer the one of that version.
	Rehash(ctx context.Context, id string, version int64, hash string) error
}
