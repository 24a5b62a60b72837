package api

import (
	"net/http"
	"strconv"
	"strings"
)

// acceptsJSON reports whether the Accept fields of a request allow an
// answer in application/json. The most specific range that matches
// decides (RFC 9110, section 12.5.1), so "*/*, application/json;q=0"
// excludes JSON. No field, or an empty one, allows everything.
func acceptsJSON(header http.Header) bool {
	fields := header["Accept"]
	if len(fields) == 0 {
		return true
	}
	specificity, accepted, ranges := 0, false, 0
	for _, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			name, parameters, _ := strings.Cut(part, ";")
			name = strings.TrimSpace(name)
			if name == "" {
				continue
			}
			ranges++
			if s := jsonSpecificity(name); s > specificity {
				specificity, accepted = s, weight(parameters) > 0
			} else if s == specificity && s > 0 {
				accepted = accepted || weight(parameters) > 0
			}
		}
	}
	return accepted || ranges == 0
}

// jsonSpecificity tells how closely a media range names
// application/json: 3 exactly, 2 by its type, 1 as anything, 0 not.
func jsonSpecificity(name string) int {
	switch {
	case strings.EqualFold(name, "application/json"):
		return 3
	case strings.EqualFold(name, "application/*"):
		return 2
	case name == "*/*":
		return 1
	}
	return 0
}

// weight reads the q parameter of a media range. A weight that cannot be
// read counts as 1: a client that asks for JSON clumsily still wants it.
func weight(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				return q
			}
		}
	}
	return 1
}
