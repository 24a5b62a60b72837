package gate

import (
	"net/http"
	"strings"
)

// strip removes the gate's headers, which are for services alone, from an
// answer.
func strip(h http.Header) {
	for name := range h {
		switch {
		case name == "Trailer":
			unannounce(h)
		case isReserved(name):
			delete(h, name)
		}
	}
}

// isReserved recognises the gate's headers, also as unannounced trailers.
func isReserved(name string) bool { return isIdentity(strings.TrimPrefix(name, http.TrailerPrefix)) }

// unannounce removes the gate's headers from the announced trailers. Servers
// send no other trailers, except by TrailerPrefix.
func unannounce(h http.Header) {
	var kept []string
	for _, value := range h["Trailer"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); !isIdentity(name) {
				kept = append(kept, name)
			}
		}
	}
	if len(kept) == 0 {
		delete(h, "Trailer")
		return
	}
	h["Trailer"] = []string{strings.Join(kept, ", ")}
}
