// Package api has what the control API and its clients share: the types of
// the bodies, the syntax of account ids, and the refusals of both sides. It
// imports only the shape of a refusal, so that clients need no other part of
// the gate.
package api

import "time"

// Plans are the plans and endpoints of the configuration.
type Plans struct {
	Plans     []Plan     `json:"plans" nullable:"false" doc:"All plans, in the order of the configuration."`
	Endpoints []Endpoint `json:"endpoints" nullable:"false" doc:"All endpoints, in the order of the configuration."`
	Timezone  string     `json:"timezone" doc:"The IANA zone whose midnight resets the counts."`
}

// Plan has the daily limits of its accounts. A plan without limits gives no
// access.
type Plan struct {
	Name string `json:"name"`
	// Limits has the calls a day of each endpoint of the plan; nil is
	// unlimited.
	Limits map[string]*int64 `json:"limits" doc:"Calls a day by endpoint; null when unlimited. An endpoint that is missing is not accessible."`
}

// Endpoint is one metered endpoint of the API behind the gate.
type Endpoint struct {
	Name    string `json:"name"`
	Method  string `json:"method"`
	Path    string `json:"path" doc:"The path pattern, as Go's net/http.ServeMux writes it."`
	Ability string `json:"ability" doc:"The ability that a token needs to call it."`
}

// Account is one customer of the API.
type Account struct {
	Account   string    `json:"account" doc:"The account's id."`
	Plan      string    `json:"plan"`
	Disabled  bool      `json:"disabled" doc:"Whether the account's tokens are refused."`
	CreatedAt time.Time `json:"created_at"`
}

// AccountChange changes an account. A nil member does not change. A new
// account is enabled and on plan free.
type AccountChange struct {
	Plan     *string `json:"plan,omitempty" nullable:"true" doc:"The new plan. Default for a new account: free."`
	Disabled *bool   `json:"disabled,omitempty" nullable:"true" doc:"Whether to refuse the account's tokens."`
}

// AccountPage is one page of a list of accounts.
type AccountPage struct {
	Accounts []Account `json:"accounts" nullable:"false" doc:"In ascending order of their ids."`
	// Next is the parameter after of the next page; nil on the last page.
	Next *string `json:"next" doc:"The after of the next page; null on the last one."`
}

// Key is a token without its secret. Times are in UTC; a nil time is not
// set.
type Key struct {
	ID         string     `json:"id"`
	Account    string     `json:"account"`
	Kind       string     `json:"kind" enum:"key,login" doc:"A key that a person created, or the token of a login."`
	Name       string     `json:"name"`
	Abilities  []string   `json:"abilities" nullable:"false" doc:"What the token may do, if the plan of the account includes it."`
	Hint       string     `json:"hint" doc:"A part of the token that identifies it."`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastUsedAt *time.Time `json:"last_used_at" doc:"At most a minute old."`
}

// KeyList is a list of the keys of one account.
type KeyList struct {
	Keys []Key `json:"keys" nullable:"false" doc:"Oldest first."`
}

// KeyRequest describes a new token. At most one of ExpiresAt and TTL is
// set.
type KeyRequest struct {
	// Name has 1 to 64 characters and is unique among the account's live
	// keys. It is optional for a login token.
	Name string `json:"name,omitempty" doc:"1 to 64 characters in Unicode's form NFC, unique among the account's live keys. Optional for a login token."`
	// Abilities limits what the token may do. Nil means all abilities of
	// the plan; an empty list is refused.
	Abilities []string   `json:"abilities,omitzero" doc:"What the token may do. Default: all abilities of the current plan."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"When the token expires. Default for a key: never."`
	// TTL is the time until the token expires, as a Go duration with
	// optional days: "720h", "30d", "1d12h".
	TTL string `json:"ttl,omitempty" minLength:"1" doc:"The time until the token expires, instead of expires_at: for example 720h or 30d. Default for a login token: login_ttl of the configuration."`
	// Kind is "key", the default, or "login".
	Kind string `json:"kind,omitempty" enum:"key,login" doc:"Default: key."`
}

// IssuedKey is a new token with its secret. The secret is not available
// again. Do not log or store it.
type IssuedKey struct {
	Key
	Token string `json:"token" doc:"The secret. It is not shown again."`
}

// Rotation describes how to replace a token.
type Rotation struct {
	// Overlap is how long the old token still works, as a Go duration with
	// optional days. Default: it ends at once.
	Overlap string `json:"overlap,omitempty" minLength:"1" doc:"How long the old token still works, for example 24h. Default: it ends at once."`
}
