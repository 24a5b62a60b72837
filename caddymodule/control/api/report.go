package api

import (
	"net/http"
	"time"
)

// UsageTop has the accounts that an operator may want to look at.
type UsageTop struct {
	Busiest []BusyAccount  `json:"busiest" nullable:"false" doc:"The accounts with the most calls of the last days, most calls first."`
	Nearest []NearestLimit `json:"nearest" nullable:"false" doc:"The limits of a day or a month that are nearest to be used up now, nearest first."`
}

// Summary is what all accounts called and what was refused, for operators.
type Summary struct {
	At          time.Time        `json:"at" doc:"When the numbers were added up."`
	Accounts    int64            `json:"accounts" doc:"The number of accounts."`
	Disabled    int64            `json:"disabled" doc:"How many of them are disabled."`
	Days        []SummaryDay     `json:"days" nullable:"false" doc:"The last 30 days, today included, oldest first."`
	Nearest     []NearestLimit   `json:"nearest" nullable:"false" doc:"The 10 limits of a day or a month that are nearest to be used up now, nearest first."`
	MostRefused []RefusedAccount `json:"most_refused" nullable:"false" doc:"The 10 accounts with the most refused calls of the last 7 days, most first."`
	Checks      []Check          `json:"checks" nullable:"false" doc:"What an operator looks after besides the readiness: webhook and backup, if there are any."`
}

// SummaryDay is what all accounts called on a day.
type SummaryDay struct {
	Day     string           `json:"day" format:"date" doc:"The day, in the time zone of the gate."`
	Calls   map[string]int64 `json:"calls" nullable:"false" doc:"The calls by their cost, without those that were refunded, by endpoint."`
	Refused map[string]int64 `json:"refused" nullable:"false" doc:"How many calls were refused, or would have been in mode shadow, by the code of the refusal."`
}

// RefusedAccount is how many calls of an account were refused.
type RefusedAccount struct {
	Account string           `json:"account" doc:"The account's id."`
	Label   string           `json:"label" doc:"The account's label."`
	Plan    string           `json:"plan" doc:"The account's plan."`
	Calls   int64            `json:"calls" doc:"How many calls were refused."`
	Codes   map[string]int64 `json:"codes" nullable:"false" doc:"How many, by the code of the refusal."`
}

// BusyAccount is what an account used of all endpoints.
type BusyAccount struct {
	Account string `json:"account" doc:"The account's id."`
	Label   string `json:"label" doc:"The account's label."`
	Plan    string `json:"plan" doc:"The account's plan."`
	Calls   int64  `json:"calls" doc:"The calls by their cost."`
}

// NearestLimit is a quota and what an account used of it.
type NearestLimit struct {
	Account   string     `json:"account" doc:"The account's id."`
	Label     string     `json:"label" doc:"The account's label."`
	Plan      string     `json:"plan" doc:"The account's plan."`
	Endpoint  string     `json:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	Period    string     `json:"period" enum:"day,week,month,total" doc:"The limit's period."`
	Limit     int64      `json:"limit" doc:"The calls that are admitted."`
	Used      int64      `json:"used" doc:"The calls of the period, by their cost."`
	Remaining int64      `json:"remaining" doc:"The calls left in the period."`
	ResetsAt  *time.Time `json:"resets_at" doc:"When the period ends; null for a total."`
}

// TopQuery asks for the busiest accounts.
type TopQuery struct {
	Days  int `query:"days" minimum:"1" maximum:"90" default:"1" doc:"The last days that count for the busiest accounts, including today."`
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"20" doc:"The maximum number of accounts, and of limits."`
}

// The operations about all accounts.
var (
	ShowTop = Operation[TopQuery, UsageTop]{
		ID: "show-top", Method: http.MethodGet, Path: "/tollgate/usage/top", Tag: "usage",
		Summary:     "Show the busiest accounts, and those nearest to a limit",
		Description: "Reads the counts of all accounts. The limits are those of a day or a month, with the overrides of the account. Limits of keys and limits of 0 are not among them.",
	}
	ShowSummary = Operation[None, Summary]{
		ID: "show-summary", Method: http.MethodGet, Path: "/tollgate/summary", Tag: "usage",
		Summary: "Show what all accounts called, what was refused, and what needs care",
		Description: "The gate keeps the summary and makes it at most once a minute, because that reads the counts of all accounts. A request that finds an older one gets it at once, and the gate makes the next one. " +
			"Without one of the last hour, a request waits for up to 4 seconds. Then the answer is 503 with the code unavailable and Retry-After, and the gate continues to make the summary.",
	}
)
