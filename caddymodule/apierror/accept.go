package apierror

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

var notAcceptable = New(http.StatusNotAcceptable, "not_acceptable",
	"The Accept header excludes application/json, and nothing else is served here.")

// Negotiate returns the refusal of a request whose Accept fields exclude
// JSON, the only thing that Tollgate's APIs answer with, and nil for any
// other. It is to be asked before anything is done: a change that is made
// and then answered with 406 would be made again.
func Negotiate(header http.Header) *Error {
	if acceptsJSON(header) {
		return nil
	}
	return notAcceptable
}

// Negotiated hides from huma the header fields that have been judged
// already. huma reads them once more and by other rules: it panics on
// "Accept: a;b,c" and takes "Content-Type: Application/JSON" for unknown.
func Negotiated(ctx huma.Context) huma.Context { return negotiated{ctx} }

// request names huma's Context so that it can be embedded: a field named
// Context would hide its method of that name.
type request = huma.Context

type negotiated struct{ request }

// Unwrap returns the context underneath, as humago.Unwrap wants it.
func (n negotiated) Unwrap() huma.Context { return n.request }

// Header returns a field of the request.
func (n negotiated) Header(name string) string {
	switch name {
	case "Accept":
		return ""
	case "Content-Type":
		return "application/json"
	}
	return n.request.Header(name)
}

// PrefersHTML reports whether the Accept fields of a request prefer
// text/html to application/json, as those of browsers do. Without a
// preference it is false: a program that accepts anything gets JSON.
func PrefersHTML(header http.Header) bool {
	fields := header["Accept"]
	if len(fields) == 0 || len(fields) == 1 && (fields[0] == "*/*" || fields[0] == jsonType) {
		return false
	}
	return quality(fields, "text/html") > quality(fields, jsonType)
}

const jsonType = "application/json"

// acceptsJSON reports whether the Accept fields of a request allow an
// answer in application/json.
func acceptsJSON(header http.Header) bool {
	return quality(header["Accept"], jsonType) > 0
}

// quality returns the weight of a media type in Accept fields. The most
// specific range that matches decides (RFC 9110, section 12.5.1), so
// "*/*, application/json;q=0" excludes JSON. No field, or an empty one,
// allows everything.
func quality(fields []string, mediaType string) float64 {
	best, q, ranges := 0, 0.0, 0
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
		return 1
	}
	return q
}

// specificity returns how closely a media range names a media type: 3
// exactly, 2 by its type, 1 as anything, 0 not at all.
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

// weight reads the q parameter of a media range. A weight that cannot be
// read counts as 1: a client that asks for JSON clumsily still wants it.
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
