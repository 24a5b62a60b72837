package api

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// input says how to read a request into the struct of an endpoint. It has
// the same tags as the document, so the two agree.
type input struct {
	path, query []parameter
	// body is the index of the field Body, or -1.
	body int
}

// parameter is a parameter of an endpoint.
type parameter struct {
	// field is the index of the field of the struct.
	field int
	name  string
	// value is the default.
	value string
	// empty is the code of the refusal for an empty value in a query. An
	// empty date does not mean today.
	empty string
	// allowed are the values of an enumeration, nil for another parameter.
	allowed []string
}

// inputOf returns how to read a struct. Its fields are strings with a tag
// path or query, and the bytes Body. huma would document other fields: inputOf
// panics for them.
func inputOf(kind reflect.Type) input {
	in := input{body: -1}
	for i := range kind.NumField() {
		field := kind.Field(i)
		path, query := field.Tag.Get("path"), field.Tag.Get("query")
		switch {
		case field.Name == "Body" && field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Uint8:
			in.body = i
		case !field.IsExported() || field.Type.Kind() != reflect.String || (path == "") == (query == "") || strings.Contains(path+query, ","):
			panic(fmt.Errorf("field %s of %s is %s with the tag %q, want an exported string with the name of a path or query parameter",
				field.Name, kind, field.Type, field.Tag))
		case path != "":
			in.path = append(in.path, parameter{field: i, name: path})
		default:
			in.query = append(in.query, queryParameter(i, query, field.Tag))
		}
	}
	return in
}

// queryParameter returns the query parameter of a field.
func queryParameter(field int, name string, tag reflect.StructTag) parameter {
	p := parameter{field: field, name: name, value: tag.Get("default"), empty: codeInvalidRequest}
	if values, found := tag.Lookup("enum"); found {
		p.allowed = strings.Split(values, ",")
	}
	switch {
	case tag.Get("format") == "date":
		p.empty = codeInvalidDate
	case name == "symbols":
		p.empty = codeInvalidCurrency
	}
	return p
}

// read reads a request into a struct.
func (in *input) read(w http.ResponseWriter, r *http.Request, to reflect.Value) *apierror.Error {
	for _, p := range in.path {
		to.Field(p.field).SetString(r.PathValue(p.name))
	}
	refusal := in.readQuery(r.URL.RawQuery, to)
	if refusal == nil && in.body >= 0 {
		var body []byte
		body, refusal = readBody(w, r)
		to.Field(in.body).SetBytes(body)
	}
	return refusal
}

// largestBody is the maximum size of a request body in bytes. A hundred
// conversions with long ids take a quarter of it.
const largestBody = 64 << 10

// readBody returns the body of a request. It refuses other media types than
// JSON, and bodies that are too large.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *apierror.Error) {
	if !apierror.IsJSON(r.Header) {
		return nil, apierror.New(http.StatusUnsupportedMediaType, codeUnsupportedMedia,
			"The body must be JSON in UTF-8, sent as Content-Type: application/json without a Content-Encoding.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, apierror.New(http.StatusRequestEntityTooLarge, codeBodyTooLarge,
			"The body is too large. At most 64 KiB are allowed. Split the batch.")
	case err != nil:
		return nil, invalidRequest("The body is incomplete.")
	case len(body) == 0:
		return nil, invalidRequest("The body is empty. It must be a JSON object with the member \"conversions\".")
	}
	return body, nil
}

// readQuery reads a query string into a struct. It refuses unknown, duplicate and
// empty parameters, values outside an enumeration, and text that a lenient
// parser drops, such as "date;" or "date=%zz".
func (in *input) readQuery(raw string, to reflect.Value) *apierror.Error {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return invalidRequest("The query string is not valid percent-encoding.")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(in.query, func(p parameter) bool { return p.name == name })
		switch {
		case i < 0:
			return apierror.New(http.StatusBadRequest, codeUnknownParameter,
				"The query parameter "+quote(name)+" is unknown. "+in.allowed())
		case len(given[name]) > 1:
			return invalidRequest("The query parameter " + quote(name) + " is duplicate. Give it once.")
		case given[name][0] == "":
			return apierror.New(http.StatusBadRequest, in.query[i].empty,
				"The query parameter "+quote(name)+" is empty. Give it a value or omit it.")
		case in.query[i].allowed != nil && !slices.Contains(in.query[i].allowed, given[name][0]):
			return invalidParameter(name, given[name][0], in.query[i].allowed...)
		}
	}
	for _, p := range in.query {
		to.Field(p.field).SetString(cmp.Or(given.Get(p.name), p.value))
	}
	return nil
}

// allowed lists the query parameters for people.
func (in *input) allowed() string {
	if len(in.query) == 0 {
		return "This endpoint takes no query parameters."
	}
	names := make([]string, len(in.query))
	for i := range in.query {
		names[i] = in.query[i].name
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
