// Package refusal has the answers of the gate itself: an error with a stable
// code, as JSON, as a page for people, or for gRPC.
package refusal

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Refusal is an answer of the gate itself. It is an error if the server writes
// the answer. Refusals are shared: do not change them.
type Refusal struct {
	// Status is the HTTP status code.
	Status int
	// Code is the stable code in the body.
	Code string
	// Message is the sentence in the body.
	Message string
	// Outcome is the result of the request for metrics.
	Outcome outcome.Call
	// RetryAfter is the header of that name in seconds, or 0.
	RetryAfter int64
	// Reason is why a token that the store knows is not valid. It is for the
	// operator: no client sees it.
	Reason store.NoGrant

	fields []field // the headers in all forms of the refusal
	json   form
	isRPC  bool // the JSON has the member error of JSON-RPC
	// On a page, heading replaces the title of the status, notice replaces
	// Message, reset is the end of the wait, and docs is the address of the
	// documentation. They may be empty.
	heading, notice, reset, docs string
}

// field is a response header, its name in canonical form.
type field struct{ name, value string }

// Error returns the message.
func (f *Refusal) Error() string { return f.Message }

// fixed returns a refusal whose bytes are always the same.
func fixed(status int, code, message string, result outcome.Call, fields ...field) *Refusal {
	return complete(&Refusal{Status: status, Code: code, Message: message, Outcome: result, fields: fields}, "")
}

// ForOpenAI returns the refusal with the member error, which SDKs of OpenAI's API
// read, unless it has that of JSON-RPC. LangChain does not repeat a 429 with the
// code insufficient_quota.
func (f *Refusal) ForOpenAI() *Refusal {
	if f.isRPC {
		return f
	}
	var e struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
	}
	e.Message, e.Code = f.Message, f.Code
	switch {
	case f.Code == "quota_exceeded", f.Code == "quota_exhausted":
		e.Type, e.Code = "insufficient_quota", "insufficient_quota"
	case f.Status >= http.StatusInternalServerError:
		e.Type = "server_error"
	default:
		e.Type = cmp.Or(openAITypes[f.Status], "invalid_request_error")
	}
	member, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings always encode
	}
	c := *f
	c.json = f.json.with(`,"error":` + string(member))
	return &c
}

var openAITypes = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error", http.StatusTooManyRequests: "rate_limit_error",
}

// complete prepares the headers and the JSON of a refusal. members are further
// members of the JSON object, each after a comma.
func complete(f *Refusal, members string) *Refusal {
	if f.RetryAfter > 0 {
		f.fields = append(f.fields, field{"Retry-After", strconv.FormatInt(f.RetryAfter, 10)})
	}
	f.fields = append(f.fields, field{"Cache-Control", "no-store"}, field{"X-Content-Type-Options", "nosniff"})
	body, err := apierror.New(f.Status, f.Code, f.Message).MarshalJSON()
	if err != nil {
		panic(err) // strings always encode
	}
	f.json = newForm(f.Status, apierror.ContentType, append(body[:len(body)-1], members+"}"...))
	return f
}
