package api

import (
	"net/http"
	"time"
)

// Explanation is what a gate would answer to a request, and why.
type Explanation struct {
	Request ExplainedRequest `json:"request"`
	// Account, Plan and Key are empty if the request has no token.
	Account    string          `json:"account"`
	Plan       string          `json:"plan"`
	Key        string          `json:"key" doc:"The key's id; empty for a key with all abilities of the plan."`
	Steps      []ExplainedStep `json:"steps" nullable:"false" doc:"What the gate checks, in order, until one step refuses the request."`
	Admitted   bool            `json:"admitted" doc:"Whether mode enforce passes the request to the service, or answers it as its own endpoint."`
	Passes     bool            `json:"passes" doc:"The same in the mode of this gate: mode shadow passes most requests that are not admitted."`
	Status     *int            `json:"status" doc:"The status of the refusal; null if the request is admitted: the service decides."`
	Code       *string         `json:"code" doc:"The code of the refusal; null if the request is admitted."`
	Message    string          `json:"message"`
	RetryAfter *int64          `json:"retry_after" doc:"The seconds of the header Retry-After; null without one."`
	Mode       string          `json:"mode" enum:"enforce,shadow" doc:"In mode shadow, all members except passes say what enforce would do."`
	Limits     []CallLimit     `json:"limits" nullable:"false" doc:"The limits that cover the call."`
}

// ExplainedRequest is the request in question.
type ExplainedRequest struct {
	Method string `json:"method"`
	Target string `json:"target"`
}

// ExplainedStep is the result of one step.
type ExplainedStep struct {
	Step    string `json:"step" enum:"path,headers,route,token,address,entitlement,cost,quota,proxy"`
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// CallLimit is a limit of a call, and what is left of it.
type CallLimit struct {
	Endpoint  string     `json:"endpoint" doc:"The endpoint's name, or all for all endpoints together."`
	Period    string     `json:"period" enum:"second,minute,hour,day,week,month,total,concurrent"`
	Limit     int64      `json:"limit" doc:"The calls that are admitted, or included in a soft limit."`
	Soft      *int64     `json:"soft,omitempty" doc:"From how many calls on a soft limit refuses."`
	Calls     bool       `json:"calls,omitzero" doc:"Whether each call counts 1, whatever it costs."`
	Of        string     `json:"of" enum:"account,key,address" doc:"Whose limit it is."`
	Used      *int64     `json:"used" doc:"What is counted in this period; null for a pace."`
	Remaining int64      `json:"remaining" doc:"What the limit still admits now."`
	ResetsAt  *time.Time `json:"resets_at" doc:"When the period ends; null for a pace, which is refilled evenly, and for a total, which does not renew."`
	Refuses   bool       `json:"refuses" doc:"Whether the limit refuses the call."`
}

// Question is a request to explain. Only Method and Target are required.
type Question struct {
	Method  string `query:"method" required:"true" maxLength:"64" pattern:"^[!-~]+$" doc:"The method of the request."`
	Target  string `query:"target" required:"true" maxLength:"8192" pattern:"^[!-~]+$" doc:"The path and query of the request, as a client writes it."`
	Account string `query:"account" maxLength:"64" doc:"The account that calls. Without key: with a key that has all abilities of the plan and no restrictions."`
	Key     string `query:"key" maxLength:"64" doc:"The id of the key that calls."`
	From    string `query:"from" maxLength:"64" doc:"The address of the client, for a key with addresses."`
	Cost    int64  `query:"cost" minimum:"1" maximum:"1000000000000000" default:"1" doc:"The number of elements in the body, for an endpoint whose cost it is."`
}

// Explain explains a request.
var Explain = Operation[Question, Explanation]{
	ID: "explain", Method: http.MethodGet, Path: "/tollgate/explain", Tag: "usage",
	Summary: "Explain what the gate would answer to a request",
	Description: "Each step of the gate, the answer, and what is left of each limit. It counts nothing. " +
		"It assumes valid headers and a valid body. Without account and key, the request has no token.",
	Errors: []int{http.StatusNotFound},
}
