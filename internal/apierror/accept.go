package apierror

import (
	"net/http"
	"strconv"
	"strings"
)

// Negotiate returns the media type that the Accept header of a request
// prefers: JSON or one of the others. If two have the same weight, the more
// specific range wins: "text/csv, */*" prefers CSV. Without a preference it is
// the first of them, JSON first. It refuses a request whose header excludes
// all. Call it before any work: a client would repeat a change that was made
// and answered with 406.
func Negotiate(header http.Header, others ...string) (string, *Error) {
	most, closest := quality(header["Accept"], jsonType)
	best := jsonType
	for _, other := range others {
		if q, s := quality(header["Accept"], other); q > most || q == most && s > closest {
			best, most, closest = other, q, s
		}
	}
	if most > 0 {
		return best, nil
	}
	return "", New(http.StatusNotAcceptable, "not_acceptable",
		"The Accept header excludes all media types of this answer: "+strings.Join(append([]string{jsonType}, others...), ", ")+".")
}

// Accepts reports whether the Accept header of a request allows a media type.
func Accepts(header http.Header, mediaType string) bool {
	q, _ := quality(header["Accept"], mediaType)
	return q > 0
}

// PrefersHTML reports whether the Accept header of a request prefers
// text/html to application/json, as in the requests of browsers. Without a
// preference it is false: a program that accepts anything gets JSON.
func PrefersHTML(header http.Header) bool {
	fields := header["Accept"]
	if len(fields) == 0 || len(fields) == 1 && (fields[0] == "*/*" || fields[0] == jsonType) {
		return false
	}
	html, _ := quality(fields, "text/html")
	json, _ := quality(fields, jsonType)
	return html > json
}

const jsonType = "application/json"

// quality returns the weight of a media type in Accept fields, and the
// specificity of the range that it is from. The most specific range that
// matches decides (RFC 9110, section 12.5.1): "*/*, application/json;q=0"
// excludes JSON. Without a range, everything is allowed.
func quality(fields []string, mediaType string) (q float64, best int) {
	ranges := 0
	for _, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			name, parameters, _ := strings.Cut(part, ";")
			name = strings.TrimSpace(name)
			if name == "" {
				continue
			}
			ranges++
			s := specificity(name, mediaType)
			if s == 0 || s < best {
				continue
			}
			if s > best {
				best, q = s, 0
			}
			q = max(q, weight(parameters))
		}
	}
	if ranges == 0 {
		return 1, 0
	}
	return q, best
}

// specificity returns how precisely a media range matches a media type:
// 3 for the same type and subtype, 2 for type/*, 1 for */*, 0 for no match.
func specificity(name, mediaType string) int {
	slash := strings.IndexByte(mediaType, '/') + 1
	switch {
	case strings.EqualFold(name, mediaType):
		return 3
	case len(name) == slash+1 && name[slash] == '*' && strings.EqualFold(name[:slash], mediaType[:slash]):
		return 2
	case name == "*/*":
		return 1
	}
	return 0
}

// weight returns the q parameter of a media range. An invalid weight is 1:
// a client with a malformed field still wants the type that it names.
func weight(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && q >= 0 {
				return min(q, 1)
			}
		}
	}
	return 1
}
