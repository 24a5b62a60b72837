// Package api has what the control API and its clients share: the types of
// the bodies, the syntax of account ids, and the refusals of both sides. It
// imports only the shape of a refusal, so that clients need no other part of
// the gate. The tag doc of a member says what it is; null in it is nil in Go.
package api

import "time"

// Plans are the plans and endpoints of the configuration.
type Plans struct {
	Plans     []Plan     `json:"plans" nullable:"false" doc:"All plans, in the order of the configuration."`
	Endpoints []Endpoint `json:"endpoints" nullable:"false" doc:"All endpoints, in the order of the configuration."`
	Timezone  string     `json:"timezone" doc:"The IANA zone whose midnight ends days and months."`
	Day       string     `json:"day" format:"date" doc:"The current day, in this zone and by the clock of the gate."`
}

// Plan has the limits of its accounts. A plan without endpoints gives no
// access.
type Plan struct {
	Name       string            `json:"name"`
	Limits     map[string]*int64 `json:"limits" doc:"Calls a day by endpoint; null without a limit of the day. An endpoint that is missing is not accessible."`
	MoreLimits []Limit           `json:"more_limits" nullable:"false" doc:"The limits of other periods, and those of all endpoints together, in the order of the configuration."`
}

// All is the Endpoint of a limit of all endpoints together.
const All = "all"

// Per returns a period with its article, such as "an hour".
func Per(period string) string {
	if period == "hour" {
		return "an hour"
	}
	return "a " + period
}

// Limit bounds the cost of the calls to one endpoint, or to all.
type Limit struct {
	Endpoint string `json:"endpoint" minLength:"1" maxLength:"64" doc:"The endpoint's name, or all for all endpoints together."`
	Period   string `json:"period" enum:"second,minute,hour,day,month" doc:"A day or a month of the calendar, or a pace: a token bucket that is refilled evenly over the period."`
	Limit    int64  `json:"limit" minimum:"0" maximum:"1000000000000000" doc:"The calls that are admitted. A pace is at least 1."`
}

// Override is a limit of one account that replaces the limit of its plan with
// the same endpoint and period, or adds one. It opens no endpoint.
type Override struct {
	Endpoint  string     `json:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	Period    string     `json:"period" enum:"second,minute,hour,day,month"`
	Limit     *int64     `json:"limit" doc:"The calls that are admitted; null if unlimited."`
	ExpiresAt *time.Time `json:"expires_at" doc:"When the override ends; null if never."`
	Reason    string     `json:"reason" doc:"Why there is an override, for the operator."`
	CreatedAt time.Time  `json:"created_at"`
}

// OverrideList is the overrides of one account.
type OverrideList struct {
	Limits []Override `json:"limits" nullable:"false" doc:"The overrides that have not ended."`
}

// OverrideRequest describes an override.
type OverrideRequest struct {
	Limit     *int64     `json:"limit" required:"true" nullable:"true" minimum:"0" maximum:"1000000000000000" doc:"The calls that are admitted; null for unlimited."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"When the override ends. Default: never."`
	Reason    string     `json:"reason,omitempty" maxLength:"200" doc:"Why there is an override, for the operator."`
}

// Endpoint is one metered endpoint of the API behind the gate.
type Endpoint struct {
	Name       string  `json:"name"`
	Method     string  `json:"method"`
	Path       string  `json:"path" doc:"The path pattern, as Go's net/http.ServeMux writes it."`
	Ability    string  `json:"ability" doc:"The ability that a token needs to call it."`
	Cost       int64   `json:"cost" doc:"How much a call counts in each limit, unless cost_member says otherwise."`
	CostHeader *string `json:"cost_header" doc:"The header of the answer that tells the cost; null if nothing does. Then cost is what a call reserves."`
	CostMember *string `json:"cost_member" doc:"The member of the JSON body whose elements are the cost; null if cost is."`
}

// Account is one customer of the API.
type Account struct {
	Account   string    `json:"account" doc:"The account's id."`
	Plan      string    `json:"plan"`
	Label     string    `json:"label" doc:"A text for people, such as an e-mail address. It may be empty."`
	Disabled  bool      `json:"disabled" doc:"Whether the account's tokens are refused."`
	CreatedAt time.Time `json:"created_at"`
}

// MaxLabel is how long the label of an account may be, in characters.
const MaxLabel = 200

// AccountChange changes an account. A nil member does not change. A new
// account is enabled and on plan free.
type AccountChange struct {
	Plan     *string `json:"plan,omitempty" nullable:"true" doc:"The new plan. Default for a new account: free."`
	Disabled *bool   `json:"disabled,omitempty" nullable:"true" doc:"Whether to refuse the account's tokens."`
	Label    *string `json:"label,omitempty" nullable:"true" doc:"A text for people, at most 200 characters, none of them invisible."`
}

// MaxImport is how many lines an import has at most.
const MaxImport = 100_000

// The media types of JSON lines.
const (
	LinesType      = "application/jsonl"
	OtherLinesType = "application/x-ndjson"
)

// AccountLine is one line of an import: an account and what changes.
type AccountLine struct {
	Account string `json:"account" doc:"The account's id."`
	AccountChange
}

// KeyLine is one line of an import of keys: a key whose token another system
// made. The gate gets the hash of the token, never the token.
type KeyLine struct {
	Account   string     `json:"account" doc:"The account's id."`
	Plan      *string    `json:"plan,omitempty" nullable:"true" doc:"The plan of an account that the gate does not know. An existing account keeps its plan. Without it, an unknown account is refused."`
	Name      string     `json:"name,omitempty" doc:"1 to 64 characters in Unicode's form NFC, unique among the account's live keys. Default: imported, or imported 2 and so on."`
	Abilities []string   `json:"abilities,omitzero" nullable:"true" doc:"What the key may do. Default: all abilities of the account's plan. An empty list is refused."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"When the key expires. Default: never."`
	SHA256    string     `json:"sha256" doc:"The SHA-256 of the token without its prefix, as 64 hexadecimal digits."`
	Prefix    string     `json:"prefix,omitempty" doc:"What clients send before the token, without the | between them: for example the id of a row. Default: none."`
}

// MaxPrefix is how long the prefix of an imported token may be, in bytes.
const MaxPrefix = 64

// LineResult is the answer to one line of an import.
type LineResult struct {
	Line    int    `json:"line" doc:"The number of the line, from 1 on."`
	Account string `json:"account" doc:"The account's id. Empty if the line could not be read."`
	Status  int    `json:"status" doc:"201 for a new account or key, 200 for a changed account or a key that was imported before, otherwise the status of the refusal. With 503, the line may be applied; send it again."`
	Message string `json:"message,omitempty" doc:"Why the line was refused, for a person."`
	Code    string `json:"code,omitempty" doc:"Why the line was refused, for a program."`
}

// AccountLookup is the question which account a person means.
type AccountLookup struct {
	Name   string `json:"name" minLength:"1" maxLength:"200" doc:"An id or a label."`
	IDOnly bool   `json:"id_only,omitempty" doc:"Whether the name is an id and no label. This does not read all accounts."`
}

// AccountPage is one page of a list of accounts.
type AccountPage struct {
	Accounts []Account `json:"accounts" nullable:"false" doc:"In ascending order of their ids."`
	Next     *string   `json:"next" doc:"The after of the next page; null on the last one."`
}

// Key is a token without its secret. Times are in UTC; a nil time is not
// set.
type Key struct {
	ID           string     `json:"id"`
	Account      string     `json:"account"`
	Kind         string     `json:"kind" enum:"key,login" doc:"A key that a person created, or the token of a login."`
	Name         string     `json:"name"`
	Root         string     `json:"root,omitempty" doc:"The id of the first key of its rotations. Absent for a key that replaces none."`
	Abilities    []string   `json:"abilities" nullable:"false" doc:"What the token may do, if the plan of the account includes it."`
	Hint         string     `json:"hint" doc:"A part of the token that identifies it."`
	CreatedAt    time.Time  `json:"created_at"`
	ExpiresAt    *time.Time `json:"expires_at"`
	RevokedAt    *time.Time `json:"revoked_at"`
	LastUsedAt   *time.Time `json:"last_used_at" doc:"At most a minute old."`
	LastUsedFrom *string    `json:"last_used_from" doc:"The address of the client at last_used_at."`
	Limits       []Limit    `json:"limits" nullable:"false" doc:"The key's own limits, below those of its account. Both must have room."`
	Addresses    []string   `json:"addresses" nullable:"false" doc:"The networks and addresses that calls may come from. Empty: all."`
}

// KeyList is a list of the keys of one account.
type KeyList struct {
	Keys []Key `json:"keys" nullable:"false" doc:"Oldest first."`
}

// KeySearch is the question which key a token belongs to.
type KeySearch struct {
	SHA256 string `json:"sha256" pattern:"^[0-9A-Fa-f]{64}$" doc:"The SHA-256 of the token, as 64 hexadecimal digits."`
}

// StateLive is the State of a key that is valid.
const StateLive = "live"

// FoundKey is a key that was found by its token.
type FoundKey struct {
	Account Account `json:"account" doc:"The account of the key."`
	State   string  `json:"state" enum:"live,revoked,expired,disabled" doc:"Whether the gate accepts the token, or why not: the key was revoked, it expired, or the account is disabled."`
	Key     Key     `json:"key"`
}

// KeyRequest describes a new token. At most one of ExpiresAt and TTL is
// set.
type KeyRequest struct {
	Name      string     `json:"name,omitempty" doc:"1 to 64 characters in Unicode's form NFC, unique among the account's live keys. Optional for a login token."`
	Abilities []string   `json:"abilities,omitzero" doc:"What the token may do. Default: all abilities of the current plan. An empty list is refused."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"When the token expires. Default for a key: never."`
	TTL       string     `json:"ttl,omitempty" minLength:"1" doc:"The time until the token expires, instead of expires_at: for example 720h or 30d. Default for a login token: login_ttl of the configuration."`
	Kind      string     `json:"kind,omitempty" enum:"key,login" doc:"Default: key."`
	Limits    []Limit    `json:"limits,omitempty" maxItems:"32" doc:"The key's own limits, below those of its account: at most one for each endpoint and period."`
	Addresses []string   `json:"addresses,omitempty" maxItems:"32" doc:"The networks, such as 203.0.113.0/24, and addresses that calls may come from. Default: all."`
}

// KeyChange changes a live key, as a JSON Merge Patch (RFC 7396). At most one
// of ExpiresAt and TTL is set.
type KeyChange struct {
	Name      Change[string]     `json:"name,omitzero" nullable:"false" doc:"1 to 64 characters in Unicode's form NFC, unique among the account's live keys."`
	Abilities Change[[]string]   `json:"abilities,omitzero" nullable:"false" doc:"What the key may do. Each ability is one of the plan or already one of the key."`
	ExpiresAt Change[*time.Time] `json:"expires_at,omitzero" doc:"When the key expires; null for never."`
	TTL       string             `json:"ttl,omitempty" minLength:"1" doc:"The time from now until the key expires, instead of expires_at: for example 720h or 30d."`
	Limits    Change[[]Limit]    `json:"limits,omitzero" maxItems:"32" doc:"The key's own limits, all of them; null for none."`
	Addresses Change[[]string]   `json:"addresses,omitzero" maxItems:"32" doc:"The networks and addresses that calls may come from, all of them; null for no restriction."`
}

// IssuedKey is a new token with its secret. The secret is not available
// again. Do not log or store it.
type IssuedKey struct {
	Key
	Token string `json:"token" doc:"The secret. It is not shown again."`
}

// Rotation describes how to replace a token.
type Rotation struct {
	Overlap string `json:"overlap,omitempty" minLength:"1" doc:"How long the old token still works, for example 24h. Default: it ends at once."`
}
