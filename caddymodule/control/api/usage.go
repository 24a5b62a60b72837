package api

import "time"

// MaxUsageDays is the longest history that a UsageDocument can carry.
const MaxUsageDays = 90

// UsageDocument is what one account used.
type UsageDocument struct {
	Account  string `json:"account" doc:"The account's id."`
	Plan     string `json:"plan" doc:"The plan the account is on now."`
	Timezone string `json:"timezone" doc:"The IANA zone whose midnight resets the counts."`
	Day      string `json:"day" format:"date" doc:"Today in that zone."`
	// ResetsAt is the first instant of the next day, in the zone.
	ResetsAt time.Time `json:"resets_at" doc:"When the counts start again."`
	// Endpoints lists what the plan gives access to, in the order of the
	// configuration.
	Endpoints []UsageEndpoint `json:"endpoints" nullable:"false" doc:"What the plan gives access to."`
	// RecentCalls lists the last calls, newest first.
	RecentCalls []UsageCall `json:"recent_calls" nullable:"false" doc:"The last calls, newest first."`
	// Days is the history, oldest first. Nil when it was not asked for.
	Days []UsageDay `json:"days,omitzero" nullable:"false" doc:"The history, oldest day first, where it was asked for."`
}

// UsageEndpoint is today's count of one endpoint.
type UsageEndpoint struct {
	Endpoint string `json:"endpoint" doc:"The endpoint's name."`
	Method   string `json:"method"`
	Path     string `json:"path" doc:"The path pattern."`
	// Limit is the calls a day; nil means unlimited.
	Limit *int64 `json:"limit" doc:"Calls a day; null when unlimited."`
	Used  int64  `json:"used" doc:"Calls admitted today."`
	// Remaining is never below zero; nil means unlimited.
	Remaining *int64 `json:"remaining" doc:"Calls left today; null when unlimited."`
}

// UsageCall is one recent call: one that was admitted, or one that was refused
// because the quota was used up.
type UsageCall struct {
	At         Millis  `json:"at" format:"date-time" doc:"When the call was made, in UTC."`
	Endpoint   string  `json:"endpoint"`
	Method     string  `json:"method"`
	Path       string  `json:"path"`
	Status     int     `json:"status" doc:"The status it was answered with."`
	DurationMS float64 `json:"duration_ms" doc:"How long the answer took, in milliseconds."`
	Key        string  `json:"key" doc:"The name of the key that made it."`
}

// UsageDay is the counts of one day.
type UsageDay struct {
	Day string `json:"day" format:"date"`
	// Calls holds every endpoint of the plan, those without calls too.
	Calls map[string]int64 `json:"calls" doc:"Calls by endpoint."`
}

// Millis is an instant that JSON writes in UTC with exactly three
// fractional digits, so that a column of them lines up and sorts as text.
type Millis struct{ time.Time }

const millisLayout = "2006-01-02T15:04:05.000Z"

// MarshalText writes the instant.
func (m Millis) MarshalText() ([]byte, error) {
	return m.UTC().AppendFormat(nil, millisLayout), nil
}

// MarshalJSON writes the instant as a string.
func (m Millis) MarshalJSON() ([]byte, error) {
	return m.UTC().AppendFormat(nil, `"`+millisLayout+`"`), nil
}
