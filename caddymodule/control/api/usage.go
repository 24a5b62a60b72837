package api

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/internal/contract"
)

// MaxUsageDays is the maximum number of days in the history of a
// UsageDocument.
const MaxUsageDays = contract.MaxUsageDays

// The usage document of an account, and its parts.
type (
	// UsageDocument is the usage of one account.
	UsageDocument = contract.UsageDocument
	// UsageEndpoint is today's count of one endpoint.
	UsageEndpoint = contract.UsageEndpoint
	// UsageLimit is what was used of a limit. A pace has no Used, Remaining
	// and ResetsAt.
	UsageLimit = contract.UsageLimit
	// TopUpLeft is what is left of a top-up.
	TopUpLeft = contract.TopUpLeft
	// UsageKey is what was used of the own limits of a key.
	UsageKey = contract.UsageKey
	// UsageKeyLimit is what was used of an own limit of a key.
	UsageKeyLimit = contract.UsageKeyLimit
	// UsageCall is one recent call with a valid token: a counted one, or a
	// refused one.
	UsageCall = contract.UsageCall
	// UsageDay has the counts of one day.
	UsageDay = contract.UsageDay
	// Millis is an instant that JSON writes in UTC with exactly three
	// fractional digits.
	Millis = contract.Millis
)

// UsageQuery asks for the usage of an account.
type UsageQuery struct {
	OfAccount
	Days int `query:"days" minimum:"1" maximum:"90" doc:"Adds the history of this number of days, including today."`
}

const usagePath = accountPath + "/usage"

// GetUsage shows the usage of an account.
var GetUsage = Operation[UsageQuery, UsageDocument]{
	ID: "get-usage", Method: http.MethodGet, Path: usagePath, Tag: "usage",
	Summary:     "Show what an account used",
	Description: "The same document as the usage endpoint of the gate, with the limits of all keys instead of one, and with a history if days is set.",
}
