package api

import (
	"encoding/json"
	"time"
)

// ActorHeader names the person who acts, in a request that changes something.
const ActorHeader = "Tollgate-Actor"

// ReasonHeader says why a change is made, for the audit log: at most MaxReason
// characters.
const ReasonHeader = "Tollgate-Reason"

// MaxReason is how long a reason may be, in characters.
const MaxReason = 200

// MaxActor is how long the value of ActorHeader may be, in characters.
const MaxActor = 200

// The kinds of actors.
const (
	ActorAdmin       = "admin"       // on Caddy's admin endpoint
	ActorApplication = "application" // with the secret, or in the process of the gate
	ActorPerson      = "person"      // named by an application
)

// Actor is what made a change.
type Actor struct {
	Kind string `json:"kind" enum:"admin,application,person" doc:"admin acts on Caddy's admin endpoint, application with the secret. A person was named by an application."`
	ID   string `json:"id" doc:"The value of Tollgate-Actor, or empty."`
	// Label is not in the log.
	Label string `json:"label,omitempty" doc:"The label that the account of a person has now."`
}

// The actions of audit entries.
const (
	AccountCreate = "account.create"
	AccountSet    = "account.set"
	AccountDelete = "account.delete"
	KeyCreate     = "key.create"
	KeySet        = "key.set"
	KeyRevoke     = "key.revoke"
	KeyRotate     = "key.rotate"
	LoginRotate   = "login.rotate"
	LoginRevoke   = "login.revoke"
	LoginEnd      = "login.end" // all login tokens of an account
	LimitSet      = "limit.set"
	LimitClear    = "limit.clear"
	UsageReset    = "usage.reset"
	UsageCredit   = "usage.credit"
	PortalCreate  = "portal.create" // a link that opens the web pages

	// These change nothing at the gate: upstream reports them, see Note.
	OperatorGrant  = "operator.grant"
	OperatorRevoke = "operator.revoke"
	ResetCreate    = "reset.create" // a link that sets a password
)

// Note is a change of an account outside the gate, for the audit log.
type Note struct {
	Action string `json:"action" enum:"operator.grant,operator.revoke,reset.create" doc:"What was done: an account became an operator of the web pages, or no longer is one, or a link was made that sets its password."`
}

// Portal is a link that opens the web pages of an account once.
type Portal struct {
	URL       string    `json:"url" doc:"The link. It works once. Do not log or store it."`
	ExpiresAt time.Time `json:"expires_at" doc:"When the link expires: 5 minutes after it was made."`
}

// AuditEntry is one change. The counts of a reset or a credit change after its entry:
// at the next start, if the gate ends in between. It has no secrets.
type AuditEntry struct {
	ID      string          `json:"id" doc:"The position of the entry in the audit log."`
	At      time.Time       `json:"at" doc:"When the change was requested."`
	Actor   Actor           `json:"actor" doc:"Who made the change."`
	Action  string          `json:"action" enum:"account.create,account.set,account.delete,key.create,key.set,key.revoke,key.rotate,login.rotate,login.revoke,login.end,limit.set,limit.clear,usage.reset,usage.credit,portal.create,operator.grant,operator.revoke,reset.create" doc:"What was done."`
	Account string          `json:"account" doc:"The account's id."`
	Label   string          `json:"label,omitempty" doc:"The label that the account has now. The log does not have it."`
	Target  string          `json:"target" doc:"What was changed besides the account: the id of a key, the endpoint and period of a limit such as convert/day, an endpoint, or empty."`
	Reason  string          `json:"reason" doc:"Why, as the person said who made the change. It may be empty."`
	Before  json.RawMessage `json:"before" doc:"What there was before the change; null if nothing. A key is without its last use."`
	After   json.RawMessage `json:"after" doc:"What there is after the change; null if nothing. A key is without its last use."`
}

// AuditPage is one page of the audit log.
type AuditPage struct {
	Audit []AuditEntry `json:"audit" nullable:"false" doc:"Oldest first."`
	Next  *string      `json:"next" doc:"The after of the next page; null on the last one."`
}

// MaxRefusedDays is the maximum number of days of refused calls.
const MaxRefusedDays = 400

// Refused is how many calls were refused, or would have been in mode shadow.
type Refused struct {
	Day      string `json:"day" format:"date" doc:"The day, in the time zone of the gate."`
	Account  string `json:"account" doc:"The account's id. Empty if it is not known."`
	Endpoint string `json:"endpoint" doc:"The endpoint's name. Empty for a request to no endpoint."`
	Code     string `json:"code" doc:"The code of the refusal."`
	Reason   string `json:"reason" enum:",revoked,expired,disabled" doc:"Why a token that the gate knows is not valid: the key was revoked, it expired, or the account is disabled. Clients do not see it. Empty for other codes and unknown tokens."`
	Calls    int64  `json:"calls" doc:"How many calls were refused, or would have been in mode shadow."`
}

// RefusedPage is one page of refused calls.
type RefusedPage struct {
	Refused []Refused `json:"refused" nullable:"false" doc:"In ascending order of day, account, endpoint, code and reason."`
	Next    *string   `json:"next" doc:"The after of the next page; null on the last one."`
}

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

// NearestLimit is a limit of a day or a month and what an account used of it.
type NearestLimit struct {
	Account   string    `json:"account" doc:"The account's id."`
	Label     string    `json:"label" doc:"The account's label."`
	Plan      string    `json:"plan" doc:"The account's plan."`
	Endpoint  string    `json:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	Period    string    `json:"period" enum:"day,month" doc:"The limit's period."`
	Limit     int64     `json:"limit" doc:"The calls that are admitted."`
	Used      int64     `json:"used" doc:"The calls of the period, by their cost."`
	Remaining int64     `json:"remaining" doc:"The calls left in the period."`
	ResetsAt  time.Time `json:"resets_at" doc:"When the period ends."`
}

// Census is what all accounts need of a configuration, by the names that the
// store has: of a renamed endpoint, the oldest one.
type Census struct {
	Plans     map[string]int64 `json:"plans" nullable:"false" doc:"The number of accounts on each plan."`
	Abilities map[string]int64 `json:"abilities" nullable:"false" doc:"The number of live keys with each ability."`
	Endpoints map[string]int64 `json:"endpoints" nullable:"false" doc:"The calls of this month to each endpoint, by their cost."`
	Timezone  string           `json:"timezone" doc:"The IANA zone whose days the counts are of. Empty if it is not known."`
}
