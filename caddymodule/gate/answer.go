package gate

import (
	"io"
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// answer is the ResponseWriter of an admitted call: it sees the status,
// and completes the headers at the last moment, when the upstream's are
// there and can be put right.
type answer struct {
	http.ResponseWriter
	call   *Call
	status int // of the answer; 0 while there is none
	failed int // of the error that stands for an answer
}

// Unwrap gives http.ResponseController the writer below.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader completes the headers of the final answer.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.status = status
		a.complete(a.Header())
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write answers 200 if nothing was answered yet.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// ReadFrom lets the writer below take the body by its fastest way.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return io.Copy(a.ResponseWriter, r)
}

// recorded is the status for the list of recent calls.
func (a *answer) recorded() int {
	switch {
	case a.status != 0:
		return a.status
	case a.failed != 0:
		return a.failed
	}
	return http.StatusOK // net/http's, for a handler that wrote nothing
}

// complete sets what every gated answer carries. What the upstream says
// of rate limits is replaced: it cannot know ours.
func (a *answer) complete(h http.Header) {
	delete(h, "Ratelimit")
	delete(h, "Ratelimit-Policy")
	if c := a.call; c.limit != store.Unlimited {
		h["Ratelimit-Policy"] = c.policyValues()
		h["Ratelimit"] = c.rateLimit()
	}
	keepPrivate(h)
}

var (
	noStore           = []string{"no-store"}
	varyAuthorization = []string{"Authorization"}
)

// keepPrivate makes sure that no shared cache answers anybody with what
// was metered for somebody: not by Cache-Control, not by the variants of
// it that single caches obey (RFC 9213), not for want of Vary.
func keepPrivate(h http.Header) {
	h["Cache-Control"] = private(h["Cache-Control"])
	for name := range h {
		if strings.HasSuffix(name, "-Cache-Control") || name == "Surrogate-Control" || name == "X-Accel-Expires" {
			delete(h, name)
		}
	}
	vary, there := h["Vary"]
	if !there {
		h["Vary"] = varyAuthorization
		return
	}
	for _, value := range vary {
		for field := range strings.SplitSeq(value, ",") {
			if field = strings.TrimSpace(field); field == "*" || strings.EqualFold(field, "Authorization") {
				return
			}
		}
	}
	h["Vary"] = append(vary[:len(vary):len(vary)], "Authorization")
}

// private returns Cache-Control without what speaks to shared caches, and
// with the word that turns them away.
func private(values []string) []string {
	if len(values) == 0 {
		return noStore
	}
	if len(values) == 1 && isPrivate(values[0]) {
		return values
	}
	kept := []string{"private"}
	for _, value := range values {
		for directive := range strings.SplitSeq(value, ",") {
			directive = strings.TrimSpace(directive)
			name, _, _ := strings.Cut(directive, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "", "public", "private", "s-maxage", "proxy-revalidate":
			case "no-store":
				return noStore
			default:
				kept = append(kept, directive)
			}
		}
	}
	return []string{strings.Join(kept, ", ")}
}

// isPrivate recognises the common forms that need no change. A quoted
// argument can hide a word, so anything with one takes the long way.
func isPrivate(value string) bool {
	if value == "no-store" || value == "private" {
		return true
	}
	return strings.HasPrefix(value, "private, max-age=") && !strings.ContainsAny(value[len("private, "):], ", \"")
}
