package gate

import (
	"net/http"
	"strings"
)

// complete sets the headers of the answer to a call. It removes rate limits
// of the upstream, which does not know those of the gate, also under the
// old names of the draft, and headers that are for services alone.
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
		case strings.HasPrefix(name, "Ratelimit") || isTargetedCacheControl(name) || isReserved(name):
			delete(h, name)
		}
	}
	c.keepPrivate(h, cacheControl, vary)
	// New fields come last: a Go map of eight entries grows at any write, also
	// to an entry that it has.
	if len(c.limits) > 0 && c.rooms != nil { // shadow may not know the rooms
		c.header(h, "Ratelimit-Policy", atQuotaPolicy, c.rateLimitPolicy())
		c.header(h, "Ratelimit", atRateLimit, c.rateLimit())
	}
}

// isTargetedCacheControl recognises the variants of Cache-Control for single
// kinds of shared caches (RFC 9213).
func isTargetedCacheControl(name string) bool {
	return strings.HasSuffix(name, "-Cache-Control") || name == "Surrogate-Control" || name == "Edge-Control" || name == "X-Accel-Expires"
}

const noStore = "no-store"

// keepPrivate sets Cache-Control and Vary so that no shared cache sends the
// answer to another account.
func (c *Call) keepPrivate(h http.Header, cacheControl, vary []string) {
	switch {
	case len(cacheControl) == 0:
		c.header(h, "Cache-Control", atCacheControl, noStore)
	case len(cacheControl) > 1 || !isPrivate(cacheControl[0]):
		c.header(h, "Cache-Control", atCacheControl, private(cacheControl))
	}
	by := c.gate.vary
	if c.credential.isIdentity() {
		// The gate does not know which header has authenticated the user. A
		// cache that takes Vary: Authorization for a permission to store
		// private answers would send the answer to requests without it.
		by = "*"
	}
	if len(vary) == 0 {
		c.header(h, "Vary", atVary, by)
		return
	}
	varyBy(h, by)
}

// varyBy adds a list of request headers to Vary.
func varyBy(h http.Header, names string) {
	for name := range strings.SplitSeq(names, ", ") {
		varyByOne(h, name)
	}
}

func varyByOne(h http.Header, name string) {
	for _, value := range h["Vary"] {
		for field := range strings.SplitSeq(value, ",") {
			if field = strings.TrimSpace(field); field == "*" || strings.EqualFold(field, name) {
				return
			}
		}
	}
	h.Add("Vary", name)
}

// private returns Cache-Control with the directive private, and without
// directives for shared caches.
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

// isPrivate recognises the common forms that need no change. It does not
// accept quoted arguments, which can contain anything.
func isPrivate(value string) bool {
	if value == noStore || value == "private" {
		return true
	}
	return strings.HasPrefix(value, "private, max-age=") && !strings.ContainsAny(value[len("private, "):], ", \"")
}
