package api

import "net/http"

// Taking is a call that a program counts without sending it through the gate: of a
// worker, a queue or another proxy. Token or Account is required.
type Taking struct {
	Token    string `json:"token,omitempty" maxLength:"4096" doc:"The token of the client."`
	Account  string `json:"account,omitempty" maxLength:"64" doc:"The account that calls, without a token: with all abilities of its plan."`
	Endpoint string `json:"endpoint" minLength:"1" maxLength:"64" doc:"The endpoint's name."`
	Cost     int64  `json:"cost,omitempty" minimum:"1" maximum:"1000000000000000" doc:"What the call costs, or reserves on an endpoint with cost answer. Default: what the endpoint says; 1 on an endpoint with cost json. Required on one with reserve bound."`
	ClientIP string `json:"client_ip,omitempty" maxLength:"64" doc:"The address of the client. Without it, a key with addresses is refused, and calls without it are one client for the limit of unknown foreign tokens."`
	ID       string `json:"id,omitempty" maxLength:"200" doc:"Names the call: an account's call with the same id is counted once within 24 hours. A refused call may be tried again with its id."`
}

// Taken tells whether the gate admits a call. A refused call has the members from
// Status on, and Account, Plan and Key as far as they are known.
type Taken struct {
	Admitted  bool        `json:"admitted" doc:"Whether the call is admitted and counted."`
	Account   string      `json:"account,omitempty" doc:"The account's id."`
	Plan      string      `json:"plan,omitempty" doc:"The account's plan."`
	Key       string      `json:"key,omitempty" doc:"The key's id. Absent without a token."`
	Abilities []string    `json:"abilities,omitempty" doc:"The abilities that the token and the plan have in common."`
	Limits    []CallLimit `json:"limits,omitempty" doc:"The limits that cover the call, and what is left of them."`
	Call      string      `json:"call,omitempty" doc:"Names the call for settling its cost. It has no token. Absent if mode shadow passes a call that it does not count."`

	Status     int    `json:"status,omitempty" doc:"The status with which the gate refuses such a request."`
	Code       string `json:"code,omitempty" doc:"The code of the refusal."`
	Message    string `json:"message,omitempty" doc:"A sentence for the client."`
	RetryAfter int64  `json:"retry_after,omitempty" doc:"The seconds of the header Retry-After; absent without one."`
}

// TakeRequest is a request with a Taking.
type TakeRequest struct{ Body Taking }

// Take counts a call.
var Take = Operation[TakeRequest, Taken]{
	ID: "take", Method: http.MethodPost, Path: "/tollgate/take", Tag: "take",
	Summary: "Count a call that does not pass through the gate",
	Description: "Only on the control listener, and only with take_secret, which opens nothing else. The gate decides as about a request. " +
		"A refusal has the status 200 too: another status says that nothing was decided.",
	Errors: takeErrors,
}

var takeErrors = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusNotAcceptable, http.StatusRequestTimeout, http.StatusConflict,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable,
}

// Settlement is what a call costs.
type Settlement struct {
	Call string `path:"call" maxLength:"200" doc:"The member call of the answer that admitted it."`
	Body Settled
}

// Settled is what a call costs in the end.
type Settled struct {
	Cost int64 `json:"cost" minimum:"0" maximum:"1000000000000000" doc:"What the call costs."`
}

// SettledCall is a call whose cost is settled.
type SettledCall struct {
	Call string `json:"call" doc:"The call."`
	Cost int64  `json:"cost" doc:"What it costs."`
}

// SettleCall settles the cost of a call.
var SettleCall = Operation[Settlement, SettledCall]{
	ID: "settle-call", Method: http.MethodPost, Path: "/tollgate/calls/{call}/settle", Tag: "take",
	Summary:     "Settle the cost of a call",
	Description: "Of a call that POST /tollgate/take admitted to an endpoint with cost answer, within an hour and once: a repetition with the same cost changes nothing. Like that operation, with take_secret.",
	Errors:      takeErrors,
}
