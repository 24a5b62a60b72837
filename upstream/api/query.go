package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// parameter is a query parameter that an endpoint knows.
type parameter struct {
	name string
	// empty is the code of the refusal when the parameter is given without
	// a value. An empty date is no way to say "today".
	empty string
}

// query is what an endpoint's query string may hold.
type query struct {
	known []parameter
	// sentence tells people what is known.
	sentence string
}

// newQuery prepares the check for an endpoint from its documented
// parameters.
func newQuery(documented []*huma.Param) query {
	var known []parameter
	var names []string
	for _, p := range documented {
		if p.In != "query" {
			continue
		}
		empty := codeInvalidRequest
		switch {
		case p.Schema.Format == "date":
			empty = codeInvalidDate
		case p.Name == "symbols":
			empty = codeInvalidCurrency
		}
		known = append(known, parameter{p.Name, empty})
		names = append(names, p.Name)
	}
	sentence := "This endpoint takes no query parameters."
	if len(names) > 0 {
		sentence = "Known here: " + strings.Join(names, ", ") + "."
	}
	return query{known, sentence}
}

// check refuses a query string that holds anything but known parameters,
// each at most once and each with a value. It judges the raw text: what a
// lenient parser drops, such as "date;" or "date=%zz", is refused as well.
func (q query) check(raw string) *apierror.Error {
	seen := 0
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		name, value, err := unescape(pair)
		if err != nil {
			return apierror.New(http.StatusBadRequest, codeInvalidRequest,
				"The query string is not properly encoded.")
		}
		i := q.index(name)
		if i < 0 {
			return apierror.New(http.StatusBadRequest, codeUnknownParameter,
				"The query parameter "+quote(name)+" is not known. "+q.sentence)
		}
		if seen&(1<<i) != 0 {
			return apierror.New(http.StatusBadRequest, codeInvalidRequest,
				"The query parameter "+quote(name)+" is given more than once. Give it once.")
		}
		seen |= 1 << i
		if value == "" {
			return apierror.New(http.StatusBadRequest, q.known[i].empty,
				"The query parameter "+quote(name)+" has no value. Give it one or leave it out.")
		}
	}
	return nil
}

// index returns the place of the parameter with that name, or -1.
func (q query) index(name string) int {
	for i := range q.known {
		if q.known[i].name == name {
			return i
		}
	}
	return -1
}

// unescape splits a pair at its first equals sign and decodes both halves.
func unescape(pair string) (name, value string, err error) {
	name, value, _ = strings.Cut(pair, "=")
	// url.ParseQuery refuses semicolons too: some servers take them for
	// separators, and what two readers split differently is refused.
	if strings.Contains(pair, ";") {
		return "", "", url.EscapeError(";")
	}
	if name, err = url.QueryUnescape(name); err != nil {
		return "", "", err
	}
	value, err = url.QueryUnescape(value)
	return name, value, err
}

// quote shows a piece of the request in a message: shortened, and with
// everything that is not printable ASCII escaped.
func quote(text string) string {
	const most = 32
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strconv.QuoteToASCII(text)
}
