package api

import (
	"fmt"
	"net/http"
	"time"
)

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
	Account    string     `json:"account" doc:"The account's id."`
	Plan       *string    `json:"plan,omitempty" nullable:"true" doc:"The plan of an account that the gate does not know. An existing account keeps its plan. Without it, an unknown account is refused."`
	BillingDay *int       `json:"billing_day,omitempty" nullable:"true" minimum:"1" maximum:"31" doc:"The day on which the months of an account that the gate does not know begin. Default: 1."`
	Name       string     `json:"name,omitempty" doc:"1 to 64 characters in Unicode's form NFC, unique among the account's live keys. Default: imported, or imported 2 and so on."`
	Abilities  []string   `json:"abilities,omitzero" nullable:"true" doc:"What the key may do. Default: all abilities of the account's plan. An empty list is refused."`
	ExpiresAt  *time.Time `json:"expires_at,omitempty" nullable:"true" doc:"When the key expires. Default: never."`
	SHA256     string     `json:"sha256" doc:"The SHA-256 of the token without its prefix, as 64 hexadecimal digits."`
	Prefix     string     `json:"prefix,omitempty" doc:"What clients send before the token, without the | between them: for example the id of a row. Default: none."`
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

var importDescription = fmt.Sprintf(" At most %d lines. ", MaxImport) +
	"Lines are applied in their order, and a refused line does not stop the others. The answer has one line for each of them, in the same order. " +
	"It begins after the last line was read."

// The imports. A request and its answer have a line of JSON for each In and Out.
var (
	ImportAccounts = Operation[AccountLine, LineResult]{
		ID: "import-accounts", Method: http.MethodPost, Path: "/tollgate/accounts", Tag: "accounts",
		Summary: "Create or change many accounts", Description: "Each line of the body is one account, as in put-account." + importDescription,
	}
	ImportKeys = Operation[KeyLine, LineResult]{
		ID: "import-keys", Method: http.MethodPost, Path: "/tollgate/keys", Tag: "keys",
		Summary: "Import many keys",
		Description: "Each line of the body is one key whose token another system made. The gate gets the hash of the token and never the token. " +
			"A line whose token the account has or had already is skipped: a revoked key does not come back. Refused with 409 foreign_keys_off unless the configuration has foreign_keys on." + importDescription,
		Errors: []int{http.StatusConflict},
	}
)
