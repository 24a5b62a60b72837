package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// parameter is a query parameter of an endpoint.
type parameter struct {
	name string
	// empty is the code of the refusal for an empty value. An empty date
	// does not mean today.
	empty string
}

// query is the allowed query string of an endpoint.
type query struct {
	known []parameter
	// sentence lists the parameters for people.
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
		sentence = "Allowed: " + strings.Join(names, ", ") + "."
	}
	return query{known, sentence}
}

// check refuses a query string with unknown, duplicate or empty parameters.
// It reads the raw text: parts that a lenient parser drops, such as "date;"
// or "date=%zz", are refused too.
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
				"The query string is not valid percent-encoding.")
		}
		i := q.index(name)
		if i < 0 {
			return apierror.New(http.StatusBadRequest, codeUnknownParameter,
				"The query parameter "+quote(name)+" is unknown. "+q.sentence)
		}
		if seen&(1<<i) != 0 {
			return apierror.New(http.StatusBadRequest, codeInvalidRequest,
				"The query parameter "+quote(name)+" is duplicate. Give it once.")
		}
		seen |= 1 << i
		if value == "" {
			return apierror.New(http.StatusBadRequest, q.known[i].empty,
				"The query parameter "+quote(name)+" is empty. Give it a value or omit it.")
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
