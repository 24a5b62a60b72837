package api

import "net/http"

// UsageCount is what an account called of one endpoint on a day.
type UsageCount struct {
	Day      string `json:"day" format:"date" doc:"The day, in the time zone of the gate."`
	Account  string `json:"account" doc:"The account's id."`
	Endpoint string `json:"endpoint" doc:"The endpoint's name."`
	Calls    int64  `json:"calls" doc:"The calls by their cost, without those that were refunded."`
	Credited int64  `json:"credited" doc:"How many of the calls were given back by credits and resets."`
	Label    string `json:"label" doc:"The account's label. Empty for a closed account."`
	Plan     string `json:"plan" doc:"The account's plan now, or when it was closed."`
	Closed   bool   `json:"closed" doc:"The account was closed. Another one can have the id, with rows of its own."`
	Overage  int64  `json:"overage" doc:"How many of the calls were above a soft limit when they were made."`

	PeriodStart string `json:"period_start" format:"date" doc:"The first day of the account's month that has the day."`
}

// UsageCounts is one page of the counts of a day or a month.
type UsageCounts struct {
	Counts []UsageCount `json:"counts" nullable:"false" doc:"Account by account, in ascending order of their ids. An id has rows for each account that had it, the closed ones first. Those of one account are in ascending order of day and endpoint. A page can be empty and have a next one."`
	Next   *string      `json:"next" doc:"The after of the next page; null on the last one."`
}

// CreditRequest gives calls of an account back.
type CreditRequest struct {
	Endpoint string `json:"endpoint" maxLength:"64" doc:"The endpoint's name."`
	Calls    int64  `json:"calls" minimum:"1" maximum:"1000000000000000" doc:"How many calls to give back, by their cost."`
	Day      string `json:"day,omitempty" maxLength:"64" doc:"The day of the calls, such as 2026-11-20. Default: today."`
	Reason   string `json:"reason,omitempty" maxLength:"200" doc:"Why, for the audit log."`
	ID       string `json:"id,omitempty" maxLength:"64" pattern:"^[A-Za-z0-9._@-]+$" doc:"Names the credit. A request that is repeated with the same id gives nothing back again. Default: a new one."`
}

// Credit is calls that were given back.
type Credit struct {
	ID       string `json:"id,omitempty" doc:"The id of the credit. Not present for a reset."`
	Account  string `json:"account" doc:"The account's id."`
	Endpoint string `json:"endpoint" doc:"The endpoint's name."`
	Day      string `json:"day" format:"date" doc:"The day of the calls."`
	Calls    int64  `json:"calls" doc:"How many calls were to be given back."`
	Called   int64  `json:"called" doc:"How many calls were made on the day, also those that were given back. Later calls can be in it."`
	Credited int64  `json:"credited" doc:"How many were given back: at most those of the day that were not given back before. It can be less than calls, and is not 0."`
	Reason   string `json:"reason,omitempty" doc:"Why."`
}

// ClosedAccount is what an audit entry has of an account that was closed.
type ClosedAccount struct {
	Month string        `json:"month" doc:"The month in which the account was closed."`
	Usage []ClosedUsage `json:"usage" nullable:"false" doc:"What it called in this month, by endpoint."`
}

// ClosedUsage is what a closed account called of an endpoint in a month.
type ClosedUsage struct {
	Endpoint string `json:"endpoint" doc:"The endpoint's name."`
	Calls    int64  `json:"calls" doc:"The calls by their cost."`
	Credited int64  `json:"credited" doc:"How many of the calls were given back."`
}

// ResetQuery gives the calls of today back.
type ResetQuery struct {
	OfAccount
	Endpoint string `query:"endpoint" maxLength:"64" doc:"The endpoint whose calls to give back. Default: all."`
	Reason   string `query:"reason" maxLength:"200" doc:"Why, for the audit log."`
}

// CreditCreation gives calls back.
type CreditCreation struct {
	OfAccount
	Body CreditRequest
}

// CountsQuery selects a day or a month.
type CountsQuery struct {
	Day   string `query:"day" format:"date" doc:"The day, such as 2026-11-20. Set either day or month."`
	Month string `query:"month" doc:"The month, such as 2026-11."`
	After string `query:"after" maxLength:"64" doc:"Lists the accounts after the page with this next."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of accounts."`
}

// The operations for bills.
var (
	ResetUsage = Operation[ResetQuery, None]{
		ID: "reset-usage", Method: http.MethodDelete, Path: usagePath, Tag: "usage",
		Summary:     "Give all calls of today back",
		Description: "A credit of all calls of today, of one endpoint or of all: they are given back in every limit of a day and of a month, also in those of keys. The count of calls stays. Paces and other days do not change. Without calls that count, nothing changes.",
	}
	CreditUsage = Operation[CreditCreation, Credit]{
		ID: "credit-usage", Method: http.MethodPost, Path: accountPath + "/credits", Tag: "usage", Status: http.StatusCreated,
		Summary: "Give calls of a day back",
		Description: "The calls are given back in every limit of that day and month, also in those of keys, but not more than were made and not given back before: if there are none, the answer is 409 nothing_to_credit. " +
			"The count of calls stays, for bills. Paces do not change. A request that is repeated with the same id gives nothing back again. " +
			"The calls can be those of closed accounts with the id: calls of the newest account are given back first.",
		Errors: []int{http.StatusConflict},
	}
	ListCounts = Operation[CountsQuery, UsageCounts]{
		ID: "list-counts", Method: http.MethodGet, Path: "/tollgate/usage/counts", Tag: "usage",
		Summary: "Show what all accounts called on a day or in a month",
		Description: "For bills: a row for each account, day and endpoint with calls, account by account. Closed accounts are among them. " +
			"A page ends before its limit when it is long. It can also be empty and have a next one.",
	}
)
