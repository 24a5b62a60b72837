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
	"fmt"
	"net/mail"
	"regexp"
	"strings"
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

const (
	// SessionLifetime is how long a session lasts at most.
	SessionLifetime = 7 * 24 * time.Hour

	// SessionIdle is how long a session lasts without a visit.
	SessionIdle = 12 * time.Hour

	// PortalLifetime is SessionLifetime for a portal link.
	PortalLifetime = 12 * time.Hour
)

// Session is a browser in which an account is signed in.
type Session struct {
	// ID is the hash of the secret that the browser holds.
	ID string
	// AccountID is the account's id.
	AccountID string
	// Version is the Identity's at the time of the sign-in. The session is
	// valid while the account has this version.
	Version int64
	// Portal is true for a visit by a link of the gate. Its account can be one
	// that only the gate has; then Version is 0.
	Portal bool
	// Agent is the User-Agent of the browser.
	Agent string
	// CreatedAt, SeenAt and ExpiresAt are in UTC, to the millisecond.
	// SeenAt is the time of the last visit, to the minute.
	CreatedAt time.Time
	SeenAt    time.Time
	ExpiresAt time.Time
}

// Live reports whether a session is neither expired nor idle.
func (s Session) Live(now time.Time) bool {
	return now.Before(s.ExpiresAt) && now.Sub(s.SeenAt) < SessionIdle
}

// Bounds of an e-mail address in bytes: a forward path of RFC 5321 has at most
// 256 with its angle brackets, and a local part 64.
const (
	maxEmail     = 254
	maxLocalPart = 64
)

// hostName matches labels of up to 63 letters, digits and inner hyphens (RFC
// 1123). A single label is a host name, "localhost" for instance.
var hostName = regexp.MustCompile(`^(?i:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*)$`)

// Email is an e-mail address in its canonical form: trimmed and in lower
// case. Different spellings of one address are one Email, so that it cannot
// have two accounts.
type Email string

// ParseEmail returns the canonical form of text, or an error that wraps
// ErrEmail.
//
// Only ASCII is allowed; other domains have their "xn--" form. So the
// canonical form is the same in the gate, whose login throttle counts by it:
// in ASCII no two letters fold to the same one. Quoted local parts and address
// literals are refused: they are unused, and can contain characters that mail
// programs, logs and web pages read differently.
func ParseEmail(text string) (Email, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxEmail {
		return "", fmt.Errorf("%w: longer than %d bytes", ErrEmail, maxEmail)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%w: only printable ASCII without spaces", ErrEmail)
	}
	address, err := mail.ParseAddress(text)
	if err != nil || address.Name != "" || address.Address != text {
		return "", fmt.Errorf("%w: not of the form name@example.com", ErrEmail)
	}
	local, domain, _ := strings.Cut(text, "@")
	if len(local) > maxLocalPart {
		return "", fmt.Errorf("%w: more than %d bytes before the @", ErrEmail, maxLocalPart)
	}
	if !hostName.MatchString(domain) {
		return "", fmt.Errorf("%w: no host name after the @", ErrEmail)
	}
	return Email(strings.ToLower(text)), nil
}
