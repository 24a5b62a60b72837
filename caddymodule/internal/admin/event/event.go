// Package event stores and posts events: an account reaches a limit, or an
// account or a key changes.
//
// An event has an id that is derived from what happened, so that the same
// event has the same id after a restart and on every gate.
package event

import (
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// The types of events. They are names of Caddy's event system, too.
const (
	QuotaWarning   = "tollgate.quota_warning"
	QuotaExceeded  = "tollgate.quota_exceeded"
	KeyCreated     = "tollgate.key_created"
	KeyRotated     = "tollgate.key_rotated"
	KeyRevoked     = "tollgate.key_revoked"
	AccountChanged = "tollgate.account_changed"
)

// Types lists all types of events.
var Types = []string{QuotaWarning, QuotaExceeded, KeyCreated, KeyRotated, KeyRevoked, AccountChanged}

// Quota says that an account has reached a percentage of a limit of a day or
// a month, or that the limit has refused a call.
type Quota struct {
	Account string
	Plan    string
	// Endpoint is the endpoint of the limit, or store.All.
	Endpoint string
	Period   store.Period
	Limit    int64
	// Used is what the account has used in the period.
	Used int64
	// Threshold is the percentage of the limit, or 0 if the limit has refused
	// a call.
	Threshold int
	// Start and End are those of the day or the month.
	Start, End time.Time
	// At is the time of the call.
	At time.Time
}

// Change says that an account or one of its keys was changed.
type Change struct {
	// Type is one of the types above, not one of quotas.
	Type string
	// ID is the id of the change in the audit log.
	ID      string
	At      time.Time
	Account string
	Plan    string // of the account; empty for a change of a key
	// Disabled is that of the account, for AccountChanged.
	Disabled bool
	// Deleted tells that the account was deleted, for AccountChanged. Plan
	// and Disabled are those that it had.
	Deleted bool
	// Key and KeyName are the id and the name of the key, or empty. A key has
	// one event of each Type.
	Key     string
	KeyName string
}
