package refusal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string

	pageTemplate = template.Must(template.New("page").Parse(pageText))
	pagePolicy   = contentPolicy(pageStyle)
)

// contentPolicy allows a page this one style, and nothing else.
func contentPolicy(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// titles are the headings of pages, by status.
var titles = map[int]string{
	http.StatusUnauthorized:          "An API key is required",
	http.StatusForbidden:             "Access denied",
	http.StatusNotFound:              "Page not found",
	http.StatusMethodNotAllowed:      "Method not allowed",
	http.StatusRequestEntityTooLarge: "The form is too long",
	http.StatusTooManyRequests:       "Too many attempts",
	http.StatusBadGateway:            "Back in a moment",
	http.StatusServiceUnavailable:    "Back in a moment",
	http.StatusGatewayTimeout:        "Back in a moment",
}

// page is the refusal for a person with a browser. None of its text is from
// the request. isForm tells that a form at the same address sent the request.
func (f *Refusal) page(isForm bool) form {
	text := f.Message
	switch {
	case f.notice != "":
		text = f.notice
	case f.Code == codeThrottled:
		text = "" // the title and the wait are enough
	case f.Status >= http.StatusInternalServerError:
		text = "This site cannot answer right now."
	case isForm:
		text = "The form could not be read. Go back and send it again."
	}
	var body bytes.Buffer
	err := pageTemplate.Execute(&body, struct {
		Status            int
		Title, Text, Wait string
		Form              bool
		Docs              string
		Style             template.CSS
	}{f.Status, cmp.Or(f.heading, titles[f.Status], "This request is not valid"), text, f.wait(), isForm, f.docs, template.CSS(pageStyle)})
	if err != nil {
		panic(err) // a write to memory does not fail
	}
	as := newForm(f.Status, "text/html; charset=utf-8", body.Bytes())
	as.fields = append(as.fields, field{"Content-Security-Policy", pagePolicy})
	as.negotiated = true
	return as
}

// wait is the time to wait in words, or "".
func (f *Refusal) wait() string {
	switch {
	case f.reset != "":
		return "Try again " + f.reset + ", " + inWords(f.RetryAfter) + "."
	case f.RetryAfter > 0:
		return "Try again " + inWords(f.RetryAfter) + "."
	case f.Status >= http.StatusInternalServerError:
		return "Try again in a few seconds."
	}
	return ""
}
