package gate

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
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

// page is the data of the template. None of it comes from the request.
type page struct {
	Status      int
	Title, Text string
	Wait        string
	Form        bool   // a form at the same address sent the request
	Docs        string // the address of the documentation, of an unknown path
	Style       template.CSS
}

// page is the refusal for a person with a browser.
func (g *Gate) page(r *http.Request, f *Refusal) form {
	view := page{Status: f.Status, Title: f.title(), Text: f.Message, Wait: f.wait(), Form: g.isForm(r), Style: template.CSS(pageStyle)}
	if f == g.notFound {
		view.Docs = g.Policy.Docs
	}
	switch {
	case f.notice != "":
		view.Text = f.notice
	case f.Code == codeThrottled:
		view.Text = "" // the title and the wait are enough
	case f.Status >= http.StatusInternalServerError:
		view.Text = "This site cannot answer right now."
	case view.Form:
		view.Text = "The form could not be read. Go back and send it again."
	}
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, view); err != nil {
		g.Logger.Error("rendering a refusal", zap.Error(err))
		return f.json
	}
	as := newForm(f.Status, "text/html; charset=utf-8", body.Bytes())
	as.header = append(as.header, field{"Content-Security-Policy", pagePolicy})
	as.negotiated = true
	return as
}

// isForm reports whether a web form sent a login: outside the guard, a GET
// of the same address shows the form.
func (g *Gate) isForm(r *http.Request) bool {
	to, found := g.Policy.Routes.Match(r.Method, r.URL.Path)
	return found && to.Login && !g.Policy.Guard.Covers(r.URL.Path)
}

// title is the heading of the page.
func (f *Refusal) title() string {
	switch {
	case f.heading != "":
		return f.heading
	case f.Code == codeThrottled:
		return "Too many attempts"
	}
	switch f.Status {
	case http.StatusUnauthorized:
		return "An API key is required"
	case http.StatusForbidden:
		return "Access denied"
	case http.StatusNotFound:
		return "Page not found"
	case http.StatusMethodNotAllowed:
		return "Method not allowed"
	case http.StatusRequestEntityTooLarge:
		return "The form is too long"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "Back in a moment"
	}
	return "This request is not valid"
}

// wait is the Retry-After of a refusal in words.
func (f *Refusal) wait() string {
	for _, line := range f.header {
		if line.name != "Retry-After" {
			continue
		}
		seconds, err := strconv.Atoi(line.value)
		switch {
		case err != nil:
		case f.reset != "":
			return "Try again " + f.reset + ", " + inWords(seconds) + "."
		default:
			return "Try again " + inWords(seconds) + "."
		}
	}
	if f.Status >= http.StatusInternalServerError {
		return "Try again in a few seconds."
	}
	return ""
}

// inWords is a wait in words. Minutes are rounded up, so that a client that
// waits that long is admitted; hours and days are rounded.
func inWords(seconds int) string {
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	switch {
	case seconds <= 90:
		return "in " + plural(seconds, "second")
	case seconds <= 90*minute:
		return "in " + plural((seconds+minute-1)/minute, "minute")
	case seconds <= 2*day:
		return "in about " + plural(int(math.Round(float64(seconds)/hour)), "hour")
	}
	return "in about " + plural(int(math.Round(float64(seconds)/day)), "day")
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// clock is the end of a day in words, with its zone. Where clocks change, a
// day can begin later than at 00:00.
func clock(t time.Time) string {
	at := t.Format("15:04")
	if at == "00:00" {
		at = "midnight"
	}
	return "at " + at + " (" + t.Location().String() + ")"
}
