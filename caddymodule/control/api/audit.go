package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/contract"
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
	UsageTopUp    = "usage.topup"
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

// AuditQuery selects entries of the audit log. Its zero value selects all, oldest
// first.
type AuditQuery struct {
	Account string `query:"account" maxLength:"200" doc:"Lists the changes of the account with this id or label only."`
	Actor   string `query:"actor" maxLength:"200" doc:"Lists the changes of the actor with this id only, or of the account with this id or label."`
	Since   string `query:"since" maxLength:"64" doc:"Lists the changes since a time in RFC 3339, or since the beginning of a date in UTC, such as 2026-11-20."`
	Until   string `query:"until" maxLength:"64" doc:"Lists the changes before a time or a date, in the form of since."`
	Order   string `query:"order" enum:"asc,desc" default:"asc" doc:"Lists the oldest changes first, or with desc the newest."`
	After   string `query:"after" maxLength:"64" doc:"Lists the changes that follow this id in the order."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of changes."`
}

// NoteAddition adds a note.
type NoteAddition struct {
	OfAccount
	Body Note
}

// The operations of the audit log.
var (
	ListAudit = Operation[AuditQuery, AuditPage]{
		ID: "list-audit", Method: http.MethodGet, Path: "/tollgate/audit", Tag: "audit",
		Summary:     "List who changed what",
		Description: fmt.Sprintf("One page at a time. A page can have fewer changes than its limit, or none, and a next page. No change over this API is missing in it: an entry and its change are one step. Only a reset of counts can fail after its entry. A new login token is not a change. Entries are kept for %d days and have no secrets. An account or actor that neither the gate nor the log has is 404.", contract.ReportDays),
		Errors:      []int{http.StatusNotFound},
	}
	AddNote = Operation[NoteAddition, None]{
		ID: "add-note", Method: http.MethodPost, Path: accountPath + "/audit", Tag: "audit",
		Summary:     "Add a change that was made outside the gate to the audit log",
		Description: "For upstream, whose operators and passwords the gate does not know.",
	}
)
