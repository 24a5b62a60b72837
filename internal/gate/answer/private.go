package answer

import (
	"net/http"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/gate/header"
)

const noStore = "no-store"

// KeepPrivate completes the headers of a metered answer, so that no shared
// cache sends it to another account. vary lists the request headers that find
// the account. It removes rate limits of the service, which does not know those
// of the gate, also under the old names of the draft, and headers that are for
// services alone.
func KeepPrivate(h http.Header, vary string, memory *header.Values) {
	var cacheControl []string
	hasVary := false
	for name, values := range h {
		switch {
		case name == "Cache-Control":
			cacheControl = values
		case name == "Vary":
			hasVary = len(values) > 0
		case name == "Trailer":
			header.StripTrailer(h)
		case strings.HasPrefix(name, "Ratelimit"), header.IsOwn(name),
			// Cache-Control for single kinds of shared caches (RFC 9213).
			strings.HasSuffix(name, "-Cache-Control"), name == "Surrogate-Control", name == "Edge-Control", name == "X-Accel-Expires":
			delete(h, name)
		}
	}
	switch {
	case len(cacheControl) == 0:
		memory.Set(h, "Cache-Control", noStore)
	case len(cacheControl) > 1 || !isPrivate(cacheControl[0]):
		memory.Set(h, "Cache-Control", private(cacheControl))
	}
	if hasVary {
		header.VaryBy(h, vary)
	} else {
		memory.Set(h, "Vary", vary)
	}
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
