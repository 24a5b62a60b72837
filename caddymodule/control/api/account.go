package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/contract"
)

// An account id has 1 to MaxAccount letters, digits and . _ @ - and not dots
// alone.
const (
	AccountPattern = contract.AccountPattern
	MaxAccount     = contract.MaxAccount
)

// ValidAccount reports whether id has the syntax of an account id.
func ValidAccount(id string) bool { return contract.ValidAccount(id) }

// The ids that upstream makes have this prefix and this number of letters and
// digits behind it.
const (
	MadePrefix = "acc_"
	MadeLength = 20
)

var madeIDs = regexp.MustCompile("^" + MadePrefix + "[0-9A-Za-z]{" + strconv.Itoa(MadeLength) + "}$")

// LooksMade reports whether id has the form of those that upstream makes.
func LooksMade(id string) bool { return madeIDs.MatchString(id) }

// Account is one customer of the API.
type Account struct {
	Account   string    `json:"account" doc:"The account's id."`
	Plan      string    `json:"plan"`
	Label     string    `json:"label" doc:"A text for people, such as an e-mail address. It may be empty."`
	Disabled  bool      `json:"disabled" doc:"Whether the account's tokens are refused."`
	Declared  bool      `json:"declared,omitempty" doc:"Whether the configuration file has the account. Then only the file changes its plan, billing day, label and disabled."`
	CreatedAt time.Time `json:"created_at"`

	BillingDay   int        `json:"billing_day,omitzero" doc:"The day on which the account's months begin. Not present for months of the calendar."`
	PeriodStart  string     `json:"period_start,omitempty" doc:"The first day of the running month. Only with billing_day."`
	PeriodEndsAt *time.Time `json:"period_ends_at,omitempty" doc:"When the running month ends. Only with billing_day."`
	PlanUntil    *time.Time `json:"plan_until,omitempty" doc:"When the plan ends. Not present for a plan without an end."`
	Then         string     `json:"then,omitempty" doc:"The plan that follows. Only with plan_until."`
}

// MaxLabel is how long the label of an account may be, in characters.
const MaxLabel = contract.MaxLabel

// AccountChange changes an account. A nil member does not change. A new
// account is enabled and on plan free.
type AccountChange struct {
	Plan     *string `json:"plan,omitempty" nullable:"true" doc:"The new plan. Default for a new account: free."`
	Disabled *bool   `json:"disabled,omitempty" nullable:"true" doc:"Whether to refuse the account's tokens."`
	Label    *string `json:"label,omitempty" nullable:"true" doc:"A text for people, at most 200 characters, none of them invisible."`

	BillingDay *int               `json:"billing_day,omitempty" nullable:"true" minimum:"1" maximum:"31" doc:"The day on which the account's months begin; in a shorter month, its last day. What runs goes on until the first such day that is at least one day after today."`
	PlanUntil  Change[*time.Time] `json:"plan_until,omitzero" nullable:"true" doc:"When the plan ends; null for never. A new plan has no end unless it is set with it."`
	Then       *string            `json:"then,omitempty" nullable:"true" doc:"The plan that follows at plan_until. Default: free."`
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

// OfAccount is the path of an account.
type OfAccount struct {
	Account string `path:"account" pattern:"^\\.{0,63}[A-Za-z0-9_@-][A-Za-z0-9._@-]*$" maxLength:"64" doc:"The account's id."`
}

// AccountQuery selects accounts. Its zero value selects all.
type AccountQuery struct {
	Plan     string `query:"plan" maxLength:"64" doc:"Lists the accounts on this plan."`
	Search   string `query:"search" maxLength:"200" doc:"Lists the accounts with this text in the id or the label, in upper or lower case, and those with a key or login token whose last 4 characters it is."`
	Disabled string `query:"disabled" enum:"true,false" doc:"Lists the accounts that are disabled, or that are not."`
	After    string `query:"after" maxLength:"64" doc:"Lists the accounts after this id."`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of accounts."`
}

// AccountPut is a change of an account.
type AccountPut struct {
	OfAccount
	Body AccountChange
}

// AccountSearch is a search for an account.
type AccountSearch struct{ Body AccountLookup }

const accountPath = "/tollgate/accounts/{account}"

// The operations of accounts.
var (
	ListAccounts = Operation[AccountQuery, AccountPage]{
		ID: "list-accounts", Method: http.MethodGet, Path: "/tollgate/accounts", Tag: "accounts",
		Summary:     "List accounts",
		Description: "In ascending order of their ids, one page at a time. A page can have fewer accounts than its limit, or none, and a next page.",
	}
	LookUpAccount = Operation[AccountSearch, AccountPage]{
		ID: "look-up-account", Method: http.MethodPost, Path: "/tollgate/accounts/lookup", Tag: "accounts",
		Summary: "Find the account that a person means",
		Description: "The account with this id, or else the accounts with this label. If no label is the same, those that differ only in upper and lower case. It changes nothing; the name is in the body because access logs have URLs. " +
			"The answer has at most " + strconv.Itoa(MaxFound) + " accounts and no next page.",
	}
	GetAccount = Operation[OfAccount, Account]{
		ID: "get-account", Method: http.MethodGet, Path: accountPath, Tag: "accounts",
		Summary:     "Show an account",
		Description: "An account that does not exist has the plan free.",
	}
	PutAccount = Operation[AccountPut, Account]{
		ID: "put-account", Method: http.MethodPut, Path: accountPath, Tag: "accounts",
		Summary: "Create or change an account",
		Description: "Members that the body omits do not change, and neither do counts. The change applies to the next call of the account. " +
			"A change of billing_day ends no month early and grants nothing twice: the answer says when the running month ends.",
		Errors: []int{http.StatusConflict},
	}
	DeleteAccount = Operation[OfAccount, None]{
		ID: "delete-account", Method: http.MethodDelete, Path: accountPath, Tag: "accounts",
		Summary:     "Close an account: delete it with its label and all its tokens",
		Description: fmt.Sprintf("Its tokens are refused from the next call on. What it called is kept for %d days, for bills: see list-counts. An account that is created later with the same id has no keys and has used nothing.", contract.CountDays),
		Errors:      []int{http.StatusConflict},
	}
	GetDocument = Operation[OfAccount, json.RawMessage]{
		ID: "get-document", Method: http.MethodGet, Path: accountPath + "/document", Tag: "accounts",
		Summary:     "Show what the store has of an account",
		Description: "The account with its keys and login tokens, also those that ended, as in a backup: with the hashes of tokens, without counts and recent calls. Members can change with the version of Tollgate.",
	}
)

// MaxFound is how many accounts a lookup finds at most.
const MaxFound = 100
