package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/contract"
)

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
	Declared     bool       `json:"declared,omitempty" doc:"Whether the configuration file has the key. Then only the file changes it."`
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

// OfKey is the path of a key.
type OfKey struct {
	OfAccount
	ID string `path:"id" minLength:"1" maxLength:"64" doc:"The key's id."`
}

// KeyCreation is a request for a key.
type KeyCreation struct {
	OfAccount
	Body KeyRequest
}

// KeyQuery selects tokens of an account. Without Kind and Include, it selects the
// keys that are not revoked.
type KeyQuery struct {
	OfAccount
	Kind    string `query:"kind" enum:"key,login" default:"key" doc:"Whether to list keys or login tokens."`
	Include string `query:"include" enum:"revoked" doc:"Includes the revoked ones that are still kept."`
}

// KeyPatch is a change of a key.
type KeyPatch struct {
	OfKey
	Body KeyChange
}

// KeyRotation is a rotation of a key.
type KeyRotation struct {
	OfKey
	Body *Rotation
}

// KeyFinding is a search for a key.
type KeyFinding struct{ Body KeySearch }

const keysPath = accountPath + "/keys"

// The operations of keys.
var (
	CreateKey = Operation[KeyCreation, IssuedKey]{
		ID: "create-key", Method: http.MethodPost, Path: keysPath, Tag: "keys", Status: http.StatusCreated,
		Summary: "Create a key or a login token",
		Description: "Only this answer has the token. It makes no account. " +
			fmt.Sprintf("An account has at most %d live login tokens: one more ends the oldest.", contract.MaxLiveLogins),
		Errors: []int{http.StatusForbidden, http.StatusConflict},
	}
	ListKeys = Operation[KeyQuery, KeyList]{
		ID: "list-keys", Method: http.MethodGet, Path: keysPath, Tag: "keys",
		Summary:     "List an account's keys, or its login tokens, without secrets",
		Description: fmt.Sprintf("Oldest first. Expired and revoked keys are kept for %d days, at most the last %d of an account. The list has revoked keys only with include=revoked, and no expired login tokens.", contract.EndedDays, contract.MaxEndedKeys),
	}
	ChangeKey = Operation[KeyPatch, Key]{
		ID: "change-key", Method: http.MethodPatch, Path: keysPath + "/{id}", Tag: "keys",
		Summary:     "Change a live key",
		Description: "The token stays the same. Members that the body omits do not change. The change applies to the next call. A login token cannot be changed.",
		Errors:      []int{http.StatusForbidden, http.StatusConflict},
	}
	RevokeKey = Operation[OfKey, None]{
		ID: "revoke-key", Method: http.MethodDelete, Path: keysPath + "/{id}", Tag: "keys",
		Summary:     "Revoke a key or a login token",
		Description: "It is refused from the next call on. Revoking it again changes nothing.",
		Errors:      []int{http.StatusConflict},
	}
	EndLogins = Operation[OfAccount, None]{
		ID: "end-logins", Method: http.MethodDelete, Path: accountPath + "/logins", Tag: "keys",
		Summary:     "End all login tokens of an account",
		Description: "Revokes all that exist at this moment, in one commit. They are refused from the next call on. Keys do not change. An account without login tokens is no error.",
	}
	RotateKey = Operation[KeyRotation, IssuedKey]{
		ID: "rotate-key", Method: http.MethodPost, Path: keysPath + "/{id}/rotate", Tag: "keys", Status: http.StatusCreated,
		Summary:     "Replace a live key",
		Description: "The new key has the same name, abilities, expiry, limits and addresses, and continues the counts of its limits. The old key ends at once, or after the overlap.",
		Errors:      []int{http.StatusForbidden, http.StatusConflict},
	}
	FindKey = Operation[KeyFinding, FoundKey]{
		ID: "find-key", Method: http.MethodPost, Path: "/tollgate/keys/find", Tag: "keys",
		Summary: "Find the key or login token with a SHA-256",
		Description: "Also one that ended and is still kept. It changes nothing; the hash is in the body because access logs have URLs. " +
			"An unknown hash reads all keys.",
		Errors: []int{http.StatusNotFound},
	}
)
