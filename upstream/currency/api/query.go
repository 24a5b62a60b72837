package api

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// query is the allowed query string of an endpoint.
type query struct{ known []parameter }

// read reads a query string into a struct. It refuses unknown, duplicate and
// empty parameters, values outside an enumeration, and text that a lenient
// parser drops, such as "date;" or "date=%zz".
func (q query) read(raw string, to reflect.Value) *apierror.Error {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return invalidRequest("The query string is not valid percent-encoding.")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(q.known, func(p parameter) bool { return p.name == name })
		switch {
		case i < 0:
			return apierror.New(http.StatusBadRequest, codeUnknownParameter,
				"The query parameter "+quote(name)+" is unknown. "+q.allowed())
		case len(given[name]) > 1:
			return invalidRequest("The query parameter " + quote(name) + " is duplicate. Give it once.")
		case given[name][0] == "":
			return apierror.New(http.StatusBadRequest, q.known[i].empty,
				"The query parameter "+quote(name)+" is empty. Give it a value or omit it.")
		case q.known[i].allowed != nil && !slices.Contains(q.known[i].allowed, given[name][0]):
			return invalidParameter(name, given[name][0], q.known[i].allowed...)
		}
	}
	for _, p := range q.known {
		to.Field(p.field).SetString(cmp.Or(given.Get(p.name), p.value))
	}
	return nil
}

// allowed lists the parameters for people.
func (q query) allowed() string {
	if len(q.known) == 0 {
		return "This endpoint takes no query parameters."
	}
	names := make([]string, len(q.known))
	for i := range q.known {
		names[i] = q.known[i].name
	}
	return "Allowed: " + strings.Join(names, ", ") + "."
}

// quote prepares a part of the request for a message: shortened, with all
// characters but printable ASCII escaped.
func quote(text string) string {
	const most = 32
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strconv.QuoteToASCII(text)
}
