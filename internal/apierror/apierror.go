// Package apierror has the shape of a refusal. The gate, the control API
// and the upstream all answer with
//
//	{"message": "<a sentence for a person>", "code": "<stable_word>"}
//
// and further members for some codes. A message has no token, no path and
// no internal detail.
package apierror

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
)

// ContentType is the media type of every refusal.
const ContentType = "application/json; charset=utf-8"

// Error is a refusal that handlers return as an error. It is immutable: With
// and WithHeader return changed copies.
type Error struct {
	// Status is the HTTP status code.
	Status int
	// Code is the stable word for programs.
	Code string
	// Message is the sentence for people.
	Message string

	header  http.Header
	members map[string]any
}

// New returns a refusal without further headers or members.
func New(status int, code, message string) *Error {
	return &Error{Status: status, Code: code, Message: message}
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Is reports whether target is a refusal with the same status and code, so
// that errors.Is recognizes one that a client has decoded.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Status == e.Status && t.Code == e.Code
}

// GetStatus returns the status code. It implements huma.StatusError, without
// an import.
func (e *Error) GetStatus() int { return e.Status }

// GetHeaders returns the further headers, which the caller must not change.
// It implements huma.HeadersError.
func (e *Error) GetHeaders() http.Header { return e.header }

// ContentType returns the media type. It implements huma.ContentTypeFilter.
func (e *Error) ContentType(string) string { return ContentType }

// With returns a copy with one more member in its body.
func (e *Error) With(member string, value any) *Error {
	c := *e
	c.members = maps.Clone(e.members)
	if c.members == nil {
		c.members = map[string]any{}
	}
	c.members[member] = value
	return &c
}

// WithHeader returns a copy with one more response header.
func (e *Error) WithHeader(name, value string) *Error {
	c := *e
	c.header = e.header.Clone()
	if c.header == nil {
		c.header = http.Header{}
	}
	c.header.Set(name, value)
	return &c
}

// MarshalJSON writes the body: message and code first, then the further
// members in the order of their names.
func (e *Error) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	}{e.Message, e.Code})
	if err != nil || len(e.members) == 0 {
		return head, err
	}
	rest, err := json.Marshal(e.members)
	if err != nil {
		return nil, err
	}
	return append(append(head[:len(head)-1], ','), rest[1:]...), nil
}

// UnmarshalJSON reads a body that MarshalJSON wrote. A body without a
// message or a code is an error: another program wrote it.
func (e *Error) UnmarshalJSON(body []byte) error {
	members := map[string]any{}
	if err := json.Unmarshal(body, &members); err != nil {
		return err
	}
	message, _ := members["message"].(string)
	code, _ := members["code"].(string)
	if message == "" || code == "" {
		return errors.New("not a refusal: no message or no code")
	}
	delete(members, "message")
	delete(members, "code")
	e.Message, e.Code, e.members = message, code, members
	return nil
}

// Write sends the refusal. It is never cached.
func (e *Error) Write(w http.ResponseWriter) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	h := w.Header()
	for name, values := range e.header {
		h[name] = values
	}
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	_, err = w.Write(body)
	return err
}
