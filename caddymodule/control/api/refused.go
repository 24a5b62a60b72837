package api

import (
	"fmt"
	"net/http"

	"github.com/caddy-tollgate/tollgate/internal/contract"
)

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

// RefusedQuery selects refused calls.
type RefusedQuery struct {
	Days    int    `query:"days" minimum:"1" maximum:"400" default:"7" doc:"Lists the last days, including today."`
	Account string `query:"account" pattern:"^\\.{0,63}[A-Za-z0-9_@-][A-Za-z0-9._@-]*$" maxLength:"64" doc:"Lists the calls of this account only."`
	After   string `query:"after" maxLength:"1024" doc:"Lists the rows after the page with this next."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The maximum number of rows."`
}

// ListRefused lists refused calls.
var ListRefused = Operation[RefusedQuery, RefusedPage]{
	ID: "list-refused", Method: http.MethodGet, Path: "/tollgate/refused", Tag: "usage",
	Summary:     "Show how many calls were refused",
	Description: fmt.Sprintf("By day, account, endpoint, code and reason, with those that mode shadow would have refused. Kept for %d days.", contract.ReportDays),
}
