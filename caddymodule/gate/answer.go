package gate

import (
	"io"
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// answer is the ResponseWriter of an admitted call, the call itself under
// another name: it sees the status, and completes the headers at the last
// moment, when the upstream's are there and can be put right.
type answer Call

// Unwrap gives http.ResponseController the writer below.
func (a *answer) Unwrap() http.ResponseWriter { return a.writer }

// Header returns the headers of the writer below.
func (a *answer) Header() http.Header { return a.writer.Header() }

// begin notes the status of the answer, the first time that there is one.
func (a *answer) begin(status int) {
	if a.status != 0 {
		return
	}
	a.status = int16(status)
	c := (*Call)(a)
	c.settle(status, true)
	c.complete(a.Header())
	c.headers = int16(len(a.Header()))
}

// WriteHeader completes the headers of the final answer.
//
// net/http ends the context of a request when its connection cannot be
// read. Caddy's proxy then takes the client for gone, while it may wait
// for the answer: the call is left to [Call.fail].
func (a *answer) WriteHeader(status int) {
	if status == statusClientGone && a.body.fault() != nil {
		return
	}
	switch {
	case status == http.StatusSwitchingProtocols && a.status == 0:
		a.begin(status)
		(*Call)(a).record(status) // the connection may stay open for days
	case isFinal(status):
		a.begin(status)
	default:
		strip(a.Header())
	}
	a.writer.WriteHeader(status)
}

// Write answers 200 if nothing was answered yet.
func (a *answer) Write(b []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.writer.Write(b)
}

// ReadFrom lets the writer below take the body by its fastest way.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	a.begin(http.StatusOK)
	return io.Copy(a.writer, r)
}

// FlushError sends the headers if they are not sent, so it has to
// complete them too.
func (a *answer) FlushError() error {
	a.begin(http.StatusOK)
	return http.NewResponseController(a.writer).Flush()
}

// complete sets what every gated answer carries. What the upstream says
// of rate limits under the names of the draft, old ones included, is
// replaced: it cannot know ours. The gate's own headers are for services.
func (c *Call) complete(h http.Header) {
	var cacheControl, vary []string
	for name, values := range h {
		switch {
		case name == "Cache-Control":
			cacheControl = values
		case name == "Vary":
			vary = values
		case name == "Trailer":
			unannounce(h)
		case strings.HasPrefix(name, "Ratelimit") || addressesCaches(name) || isReserved(name):
			delete(h, name)
		}
	}
	if c.limit != store.Unlimited {
		c.header(h, "Ratelimit-Policy", atQuotaPolicy, c.quotaPolicy())
		c.header(h, "Ratelimit", atRateLimit, c.rateLimit())
	}
	c.keepPrivate(h, cacheControl, vary)
}

// addressesCaches recognises the variants of Cache-Control that single
// kinds of shared caches obey (RFC 9213).
func addressesCaches(name string) bool {
	return strings.HasSuffix(name, "-Cache-Control") || name == "Surrogate-Control" || name == "Edge-Control" || name == "X-Accel-Expires"
}

const (
	noStore           = "no-store"
	varyAuthorization = "Authorization"
)

// keepPrivate makes sure that no shared cache answers anybody with what
// was metered for somebody, neither by Cache-Control nor for want of Vary.
func (c *Call) keepPrivate(h http.Header, cacheControl, vary []string) {
	switch {
	case len(cacheControl) == 0:
		c.header(h, "Cache-Control", atCacheControl, noStore)
	case len(cacheControl) > 1 || !isPrivate(cacheControl[0]):
		c.header(h, "Cache-Control", atCacheControl, private(cacheControl))
	}
	if len(vary) == 0 {
		c.header(h, "Vary", atVary, varyAuthorization)
		return
	}
	varyBy(h, varyAuthorization)
}

// varyBy tells caches that the answer depends on a field of the request.
func varyBy(h http.Header, name string) {
	for _, value := range h["Vary"] {
		for field := range strings.SplitSeq(value, ",") {
			if field = strings.TrimSpace(field); field == "*" || strings.EqualFold(field, name) {
				return
			}
		}
	}
	h.Add("Vary", name)
}

// private returns Cache-Control without what speaks to shared caches, and
// with the word that turns them away.
func private(values []string) string {
	kept := []string{"private"}
	for _, value := range values {
		for value != "" {
			var directive string
			directive, value = cutDirective(value)
			name, _, _ := strings.Cut(directive, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "", "public", "private", "s-maxage", "proxy-revalidate":
			case noStore:
				return noStore
			default:
				kept = append(kept, directive)
			}
		}
	}
	return strings.Join(kept, ", ")
}

// cutDirective cuts the first directive off a list. A comma within quotes
// is part of an argument, as in no-cache="Set-Cookie, X-Name".
func cutDirective(list string) (directive, rest string) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch b := list[i]; {
		case b == '"':
			quoted = !quoted
		case b == '\\' && quoted:
			i++
		case b == ',' && !quoted:
			return strings.TrimSpace(list[:i]), list[i+1:]
		}
	}
	return strings.TrimSpace(list), ""
}

// isPrivate recognises the common forms that need no change. A quoted
// argument can hide a word, so anything with one takes the long way.
func isPrivate(value string) bool {
	if value == noStore || value == "private" {
		return true
	}
	return strings.HasPrefix(value, "private, max-age=") && !strings.ContainsAny(value[len("private, "):], ", \"")
}
