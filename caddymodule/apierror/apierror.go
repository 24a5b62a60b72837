// Package apierror is the one shape in which Tollgate refuses: the gate,
// the control API and the upstream all answer
//
//	{"message": "<a sentence for a person>", "code": "<stable_word>"}
//
// with further members where they help. A message never carries a token,
// a path or an internal detail.
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

// Error is a refusal. It is an error, so that handlers can return it, and
// it is immutable: With and WithHeader return changed copies.
type Error struct {
	// Status is the HTTP status code.
	Status int
	// Code is the stable word that programs look at.
	Code string
	// Message is the sentence that people read.
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

// Is tells whether target is a refusal with the same status and code, so
// that errors.Is knows one that came over the network.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Status == e.Status && t.Code == e.Code
}

// GetStatus returns the status code, as huma.StatusError wants it.
func (e *Error) GetStatus() int { return e.Status }

// GetHeaders returns the further headers, as huma.HeadersError wants
// them. The caller must not change them.
func (e *Error) GetHeaders() http.Header { return e.header }

// ContentType returns the media type, as huma.ContentTypeFilter wants it.
func (e *Error) ContentType(string) string { return ContentType }

// With returns a copy that carries one more member in its body.
func (e *Error) With(member string, value any) *Error {
	c := *e
	c.members = maps.Clone(e.members)
	if c.members == nil {
		c.members = map[string]any{}
	}
	c.members[member] = value
	return &c
}

// WithHeader returns a copy that sets one more response header.
func (e *Error) WithHeader(name, value string) *Error {
	c := *e
	c.header = e.header.Clone()
	if c.header == nil {
		c.header = http.Header{}
	}
	c.header.Set(name, value)
	return &c
}

// MarshalJSON renders the body: message and code first, then the further
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

// UnmarshalJSON reads a body that MarshalJSON wrote. It refuses one
// without a message and a code: that is somebody else's.
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
