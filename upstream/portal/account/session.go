package account

import "time"

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
