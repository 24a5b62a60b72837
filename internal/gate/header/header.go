// Package header has the rules of the gate about headers: which names clients
// and services must not set, and lists in headers.
package header

import (
	"iter"
	"net/http"
	"strings"
)

// IsForbidden recognises headers that no client may send.
func IsForbidden(name string) bool {
	// Caddy's proxy overwrites X-Forwarded-Host, but no other spelling of it.
	return IsOwn(name) || name == "Trailer" || name != "X-Forwarded-Host" && isOverride(canonical(name))
}

// own is the prefix of the headers that the gate sets for services.
const own = "tollgate-"

// IsOwn recognises the gate's headers in any spelling that some server reads:
// in any case, with an underscore or a dot for the dash, as CGI rewrites names.
// It also recognises them as unannounced trailers.
func IsOwn(name string) bool {
	name = strings.TrimPrefix(name, http.TrailerPrefix)
	if len(name) < len(own) {
		return false
	}
	for i := range len(own) {
		if Lower(name[i]) != own[i] {
			return false
		}
	}
	return true
}

// Lower returns an ASCII letter in lower case, and a dash for its variants.
func Lower(b byte) byte {
	switch {
	case b == '_' || b == '.':
		return '-'
	case 'A' <= b && b <= 'Z':
		return b + 'a' - 'A'
	}
	return b
}

// canonical is the name as net/http writes it, with dashes.
func canonical(name string) string {
	if strings.ContainsAny(name, "_.") {
		name = strings.NewReplacer("_", "-", ".", "-").Replace(name)
	}
	return http.CanonicalHeaderKey(name)
}

// Strip removes the gate's headers, which are for services alone, from an
// answer.
func Strip(h http.Header) {
	for name := range h {
		switch {
		case name == "Trailer":
			StripTrailer(h)
		case IsOwn(name):
			delete(h, name)
		}
	}
}

// StripTrailer removes the gate's headers from the announced trailers. Servers
// send no other trailers, except by http.TrailerPrefix.
func StripTrailer(h http.Header) {
	Filter(h, "Trailer", func(name string) string {
		if IsOwn(name) {
			return ""
		}
		return name
	})
}

// Elements returns the elements of a list in a header, except empty ones.
func Elements(values []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, value := range values {
			for element := range strings.SplitSeq(value, ",") {
				if element = strings.TrimSpace(element); element != "" && !yield(element) {
					return
				}
			}
		}
	}
}

// Filter replaces each element of a list in a header, or removes it if the new
// one is "".
func Filter(h http.Header, name string, replace func(element string) string) {
	var kept []string
	for element := range Elements(h[name]) {
		if element = replace(element); element != "" {
			kept = append(kept, element)
		}
	}
	if len(kept) == 0 {
		delete(h, name)
		return
	}
	h[name] = []string{strings.Join(kept, ", ")}
}

// VaryBy adds a list of request headers to Vary.
func VaryBy(h http.Header, names string) {
	for name := range strings.SplitSeq(names, ", ") {
		if !varies(h, name) {
			h.Add("Vary", name)
		}
	}
}

func varies(h http.Header, name string) bool {
	for element := range Elements(h["Vary"]) {
		if element == "*" || strings.EqualFold(element, name) {
			return true
		}
	}
	return false
}

// Values is memory for the values of headers, one for each call. Do not copy
// it.
type Values struct {
	values [9]string
	used   int
}

// Set sets a header to a value of its own: servers have handlers that change
// the values of headers in place. It is not inlined: nine copies of it in a call
// are more lines of the cache than one.
//
//go:noinline
func (v *Values) Set(h http.Header, name, value string) {
	if v.used == len(v.values) {
		h[name] = []string{value}
		return
	}
	v.values[v.used] = value
	v.used++
	h[name] = v.values[v.used-1 : v.used : v.used]
}
