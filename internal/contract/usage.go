package contract

import "time"

// MaxUsageDays is the maximum number of days in the history of a
// UsageDocument.
const MaxUsageDays = 90

// UsageDocument is the usage of one account.
type UsageDocument struct {
	Account     string          `json:"account" doc:"The account's id."`
	Plan        string          `json:"plan" doc:"The current plan of the account."`
	PlanUntil   *time.Time      `json:"plan_until,omitempty" doc:"When the plan ends. Not present for a plan without an end."`
	Then        string          `json:"then,omitempty" doc:"The plan that follows."`
	Timezone    string          `json:"timezone" doc:"The IANA zone whose midnight ends days and months."`
	Day         string          `json:"day" format:"date" doc:"Today in that zone."`
	ResetsAt    time.Time       `json:"resets_at" doc:"When the day ends."`
	Endpoints   []UsageEndpoint `json:"endpoints" nullable:"false" doc:"The endpoints of the plan."`
	Limits      []UsageLimit    `json:"limits" nullable:"false" doc:"The limits of all endpoints together."`
	Key         *UsageKey       `json:"key,omitempty" doc:"The key of the request and its own limits. Only in the answer of the gate."`
	Keys        []UsageKey      `json:"keys,omitzero" nullable:"false" doc:"The live keys that have limits of their own. Only in the control API."`
	RecentCalls []UsageCall     `json:"recent_calls" nullable:"false" doc:"The last calls, newest first."`
	Days        []UsageDay      `json:"days,omitzero" nullable:"false" doc:"The history, oldest day first, if it was requested."`
}

// UsageEndpoint is today's count of one endpoint.
type UsageEndpoint struct {
	Endpoint  string       `json:"endpoint" doc:"The endpoint's name."`
	Method    string       `json:"method" doc:"The method of its first route; * for all."`
	Path      string       `json:"path" doc:"The path pattern of its first route."`
	Limit     *int64       `json:"limit" doc:"Calls a day; null if unlimited."`
	Used      int64        `json:"used" doc:"Calls of today that count in the limits: those that were not given back by credits."`
	Remaining *int64       `json:"remaining" doc:"Calls left today; null if unlimited."`
	Calls     int64        `json:"calls" doc:"All calls of today."`
	Credited  int64        `json:"credited" doc:"Calls of today that were given back by credits."`
	Limits    []UsageLimit `json:"limits" nullable:"false" doc:"All limits of this endpoint, with that of the day."`
	Unit      string       `json:"unit,omitempty" doc:"What the numbers count, such as tokens. Not present for calls."`
}

// UsageLimit is what was used of a limit. A pace has no Used, Remaining and
// ResetsAt.
type UsageLimit struct {
	Period    string     `json:"period" enum:"second,minute,hour,day,week,month,total,concurrent"`
	Limit     int64      `json:"limit" doc:"The calls that are admitted, or included in a soft limit."`
	Used      *int64     `json:"used" doc:"Calls counted in this period, or that run now; null for a pace."`
	Remaining *int64     `json:"remaining" doc:"Calls left in this period, or at once; null for a pace."`
	ResetsAt  *time.Time `json:"resets_at" doc:"When the period ends; null for a pace, for calls at once, and for a total, which does not renew."`

	PeriodStart *string     `json:"period_start,omitempty" format:"date" doc:"The first day of the period. Not present for a pace and a total."`
	Soft        *int64      `json:"soft,omitempty" doc:"From how many calls on a soft limit refuses."`
	Overage     *int64      `json:"overage,omitempty" doc:"How many calls are above a soft limit now."`
	Calls       bool        `json:"calls,omitzero" doc:"Whether each call counts 1, whatever it costs."`
	TopUps      []TopUpLeft `json:"topups,omitempty" doc:"What is left of top-ups of a total, in the order in which they are used. It is a part of remaining."`
}

// TopUpLeft is what is left of a top-up.
type TopUpLeft struct {
	Left      int64      `json:"left"`
	ExpiresAt *time.Time `json:"expires_at" doc:"When it is gone; null for never."`
}

// UsageKey is what was used of the own limits of a key.
type UsageKey struct {
	ID     string          `json:"id" doc:"The key's id."`
	Name   string          `json:"name" doc:"The key's name."`
	Limits []UsageKeyLimit `json:"limits" nullable:"false" doc:"The key's own limits."`
}

// UsageKeyLimit is what was used of an own limit of a key.
type UsageKeyLimit struct {
	Endpoint string `json:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	UsageLimit
}

// UsageCall is one recent call with a valid token: a counted one, or a
// refused one.
type UsageCall struct {
	At         Millis  `json:"at" format:"date-time" doc:"When the call was made, in UTC."`
	Endpoint   string  `json:"endpoint"`
	Method     string  `json:"method"`
	Path       string  `json:"path"`
	Status     int     `json:"status" doc:"The status of the answer."`
	DurationMS float64 `json:"duration_ms" doc:"The duration of the call in milliseconds."`
	Cost       int64   `json:"cost" doc:"What the call counted in each limit; 0 if it was refused or given back."`
	Key        string  `json:"key" doc:"The name of the key."`
	KeyID      string  `json:"key_id,omitempty" doc:"The id of the key. Not present for an account without a token."`
	Code       string  `json:"code,omitempty" doc:"Why the gate refused the call. Only in refused calls."`
	RequestID  string  `json:"request_id,omitempty" doc:"The id of the request, as in the access log of the gate and in the JSON of a refusal. Admitted calls have one if the gate writes an access log, or shows the id in a header."`
}

// UsageDay has the counts of one day.
type UsageDay struct {
	Day   string           `json:"day" format:"date"`
	Calls map[string]int64 `json:"calls" doc:"Calls by endpoint."`
	// Credited has only endpoints with credits.
	Credited map[string]int64 `json:"credited,omitempty" doc:"How many of the calls were given back by credits, by endpoint."`
}

// Millis is an instant that JSON writes in UTC with exactly three
// fractional digits, so that texts sort like times.
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
