package api

import (
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// query is the allowed query string of an endpoint.
type query struct{ known []parameter }

// read reads a query string into a struct. It refuses unknown, duplicate and
// empty parameters. It reads the raw text: parts that a lenient parser drops,
// such as "date;" or "date=%zz", are refused too.
func (q query) read(raw string, to reflect.Value) *apierror.Error {
	seen := 0
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		name, value, err := unescape(pair)
		if err != nil {
			return invalidRequest("The query string is not valid percent-encoding.")
		}
		i := q.index(name)
		if i < 0 {
			return apierror.New(http.StatusBadRequest, codeUnknownParameter,
				"The query parameter "+quote(name)+" is unknown. "+q.allowed())
		}
		if seen&(1<<i) != 0 {
			return invalidRequest("The query parameter " + quote(name) + " is duplicate. Give it once.")
		}
		seen |= 1 << i
		if value == "" {
			return apierror.New(http.StatusBadRequest, q.known[i].empty,
				"The query parameter "+quote(name)+" is empty. Give it a value or omit it.")
		}
		to.Field(q.known[i].field).SetString(value)
	}
	for i := range q.known {
		if seen&(1<<i) == 0 {
			to.Field(q.known[i].field).SetString(q.known[i].value)
		}
	}
	return nil
}

// index returns the index of the parameter with that name, or -1.
func (q query) index(name string) int {
	for i := range q.known {
		if q.known[i].name == name {
			return i
		}
	}
	return -1
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

// unescape splits a pair at its first equals sign and decodes both halves.
func unescape(pair string) (name, value string, err error) {
	name, value, _ = strings.Cut(pair, "=")
	// url.ParseQuery refuses semicolons too: some servers treat them as
	// separators.
	if strings.Contains(pair, ";") {
		return "", "", url.EscapeError(";")
	}
	if name, err = url.QueryUnescape(name); err != nil {
		return "", "", err
	}
	value, err = url.QueryUnescape(value)
	return name, value, err
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
