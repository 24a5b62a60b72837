package api

import (
	"fmt"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
)

// Plans are the plans and endpoints of the configuration.
type Plans struct {
	Plans     []Plan     `json:"plans" nullable:"false" doc:"All plans, in the order of the configuration."`
	Endpoints []Endpoint `json:"endpoints" nullable:"false" doc:"All endpoints, in the order of the configuration."`
	Timezone  string     `json:"timezone" doc:"The IANA zone whose midnight ends days and months."`
	Day       string     `json:"day" format:"date" doc:"The current day, in this zone and by the clock of the gate."`
}

// Plan has the limits of its accounts. A plan without endpoints gives no
// access.
type Plan struct {
	Name       string            `json:"name"`
	Limits     map[string]*int64 `json:"limits" doc:"Calls a day by endpoint; null without a limit of the day. An endpoint that is missing is not accessible."`
	MoreLimits []PlanLimit       `json:"more_limits" nullable:"false" doc:"The limits of other periods, and those of all endpoints together, in the order of the configuration."`
}

// Endpoint is one metered endpoint of the API behind the gate.
type Endpoint struct {
	Name       string      `json:"name"`
	Method     string      `json:"method" doc:"The method of its first route; * for all."`
	Path       string      `json:"path" doc:"The path pattern of its first route, as Go's net/http.ServeMux writes it."`
	Patterns   []string    `json:"patterns" nullable:"false" doc:"All its routes: method and path pattern."`
	JSONRPC    string      `json:"jsonrpc,omitempty" doc:"The JSON-RPC method, and for one tool its name, of the requests that it takes. Not present for all requests."`
	Ability    string      `json:"ability" doc:"The ability that a token needs to call it."`
	Cost       int64       `json:"cost" doc:"How much a call counts in each limit, unless cost_member says otherwise."`
	CostAnswer *CostAnswer `json:"cost_answer,omitempty" doc:"What of the answer tells the cost. Then cost is what a call reserves. Not present if the cost is known before the call."`
	Unit       string      `json:"unit,omitempty" doc:"What the cost counts, such as tokens. Not present for calls."`
	CostMember *string     `json:"cost_member" doc:"The member of the JSON body whose elements are the cost; null if cost is."`
}

// CostAnswer is what of an answer tells the cost of a call.
type CostAnswer struct {
	Header  string   `json:"header,omitempty" doc:"A header or trailer with the cost."`
	Members []string `json:"members,omitempty" nullable:"false" doc:"The members of the JSON body whose numbers add up to the cost, in place of a header."`
	Bound   []string `json:"bound,omitempty" nullable:"false" doc:"The members of the request that bound what it can cost. A call reserves that; cost is what counts for a missing member."`
}

// Summary names the routes of the endpoint: the first one, and how many others
// there are.
func (e *Endpoint) Summary() string {
	first := e.Method + " " + e.Path
	if more := len(e.Patterns) - 1; more > 0 {
		return fmt.Sprintf("%s and %d more", first, more)
	}
	return first
}

// ListPlans shows the configuration of the gate.
var ListPlans = Operation[None, Plans]{
	ID: "list-plans", Method: http.MethodGet, Path: "/tollgate/plans", Tag: "plans",
	Summary:     "Show the plans, the endpoints and the time zone that the gate is configured with, and its day",
	Description: "Only the configuration changes them, not this API.",
}

// GetPublicKeys shows the keys that assertions are verified with.
var GetPublicKeys = Operation[None, assertion.KeySet]{
	ID: "get-public-keys", Method: http.MethodGet, Path: "/tollgate/jwks.json", Tag: "plans",
	Summary:     "Show the public keys that a service verifies " + assertion.Header + " with",
	Description: "A JWK Set (RFC 7517). The control listener serves it without the secret.",
}
