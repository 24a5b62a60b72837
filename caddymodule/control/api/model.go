// Package api is what the gate's control API and its clients say to each
// other: the bodies as Go types, the paths, and the refusals that both
// sides give. It imports nothing but the shape of a refusal, so that a
// client needs nothing of the gate.
package api

import "time"

// Plans is what the gate knows from its configuration.
type Plans struct {
	Plans     []Plan     `json:"plans" nullable:"false" doc:"All plans, in the order of the configuration."`
	Endpoints []Endpoint `json:"endpoints" nullable:"false" doc:"All endpoints, in the order of the configuration."`
	Timezone  string     `json:"timezone" doc:"The IANA zone whose midnight resets the counts."`
}

// Plan is what accounts on it may do in a day. A plan without limits
// gives no access.
type Plan struct {
	Name string `json:"name"`
	// Limits holds the calls per day of each endpoint that the plan
	// lists; nil means unlimited.
	Limits map[string]*int64 `json:"limits" doc:"Calls a day by endpoint; null when unlimited. An endpoint that is missing is not accessible."`
}

// Endpoint is one metered endpoint of the API behind the gate.
type Endpoint struct {
	Name    string `json:"name"`
	Method  string `json:"method"`
	Path    string `json:"path" doc:"The path pattern, as Go's net/http.ServeMux writes it."`
	Ability string `json:"ability" doc:"What a token needs to call it."`
}

// Account is who is billed.
type Account struct {
	Account   string    `json:"account" doc:"The account's id."`
	Plan      string    `json:"plan"`
	Disabled  bool      `json:"disabled" doc:"Whether the account's tokens are refused."`
	CreatedAt time.Time `json:"created_at"`
}

// AccountChange is what to change about an account. What is nil stays as
// it is; a new account starts enabled and on plan free.
type AccountChange struct {
	Plan     *string `json:"plan,omitempty" nullable:"true" doc:"The plan to put the account on. A new account starts on free."`
	Disabled *bool   `json:"disabled,omitempty" nullable:"true" doc:"Whether to refuse the account's tokens."`
}

// AccountPage is one page of a list of accounts.
type AccountPage struct {
	Accounts []Account `json:"accounts" nullable:"false" doc:"In ascending order of their ids."`
	// Next is what to ask for with after to get the next page; nil after
	// the last page.
	Next *string `json:"next" doc:"The after of the next page; null on the last one."`
}

// Key is a token without its secret. Times are in UTC; those that are
// nil did not happen or are not set.
type Key struct {
	ID         string     `json:"id"`
	Account    string     `json:"account"`
	Kind       string     `json:"kind" enum:"key,login" doc:"A key that a person made, or a token from a login."`
	Name       string     `json:"name"`
	Abilities  []string   `json:"abilities" nullable:"false" doc:"What the token may do, as far as the account's plan allows it."`
	Hint       string     `json:"hint" doc:"Enough of the token to recognise it."`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastUsedAt *time.Time `json:"last_used_at" doc:"At most a minute old."`
}

// KeyList is the keys of one account.
type KeyList struct {
	Keys []Key `json:"keys" nullable:"false" doc:"Oldest first."`
}

// KeyRequest asks for a new token. At most one of ExpiresAt and TTL is
// set.
type KeyRequest struct {
	// Name is 1 to 64 characters, unique among the account's live keys. A
	// login token may go without.
	Name string `json:"name,omitempty" doc:"1 to 64 characters in Unicode's form NFC, unique among the account's live keys. Optional for a login token."`
	// Abilities limits what the token may do. Nil means all that the
	// account is entitled to now; an empty list is refused.
	Abilities []string   `json:"abilities,omitzero" doc:"What the token may do. Default: all that the account is entitled to now."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"When the token ends. Default: never for a key."`
	// TTL is how long the token lives, as Go writes durations, days
	// allowed: "720h", "30d", "1d12h".
	TTL string `json:"ttl,omitempty" minLength:"1" doc:"How long the token lives, instead of expires_at: for example 720h or 30d. Default for a login token: what the gate is configured with."`
	// Kind is "key", the default, or "login".
	Kind string `json:"kind,omitempty" enum:"key,login" doc:"Default: key."`
}

// IssuedKey is a new token. This is the only time that the secret is
// shown: whoever holds it must neither log nor keep it.
type IssuedKey struct {
	Key
	Token string `json:"token" doc:"The secret. It is never shown again."`
}

// Rotation tells how a token is replaced.
type Rotation struct {
	// Overlap is how long the old token goes on working, as Go writes
	// durations, days allowed. Absent: it ends at once.
	Overlap string `json:"overlap,omitempty" minLength:"1" doc:"How long the old token goes on working, for example 24h. Default: it ends at once."`
}
