// Package refusal has the answers of the gate itself: an error with a stable
// code, as JSON, as a page for people, or for gRPC.
package refusal

import (
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
