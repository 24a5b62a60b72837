package client

import (
	"bytes"
	"encoding/json"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// write returns the target and the body of a request, nil without a body. In has
// them in its fields, see api.Operation. A parameter without a value is not sent.
func write(path string, in any) (target string, body any, err error) {
	query, value := url.Values{}, reflect.ValueOf(in)
	for _, field := range reflect.VisibleFields(value.Type()) {
		of := value.FieldByIndex(field.Index)
		if field.Name == "Body" && (of.Kind() != reflect.Pointer || !of.IsNil()) {
			body = of.Interface()
		}
		if name, found := field.Tag.Lookup("path"); found {
			segment := of.String()
			if segment == "" || segment == "." || segment == ".." || name == "account" && !api.ValidAccount(segment) {
				return "", nil, misnamed[name]
			}
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(segment), 1)
		}
		if name, found := field.Tag.Lookup("query"); found && !of.IsZero() {
			query.Set(name, text(of))
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, body, nil
}

// misnamed has the refusals of a part of a path that would make it the path of
// another resource.
var misnamed = map[string]error{"account": api.ErrInvalidAccount, "id": api.ErrNoKey, "endpoint": api.ErrUnknownEndpoint, "period": api.ErrInvalidPeriod}

// text formats a parameter, which is a text or a number.
func text(v reflect.Value) string {
	if v.CanInt() {
		return strconv.FormatInt(v.Int(), 10)
	}
	return v.String()
}

// isComplete tells whether an answer has what a gate of each version sends: the
// first member, the token, in a page its list, and the code of a refused call. Another server can answer with
// JSON too, some with what they were sent.
func isComplete(out reflect.Value) bool {
	if document, is := out.Interface().(json.RawMessage); is {
		return bytes.HasPrefix(document, []byte(`{"account":{`))
	}
	first := true
	for _, field := range reflect.VisibleFields(out.Type()) {
		if tag := field.Tag.Get("json"); field.Anonymous || strings.Contains(tag, ",omit") {
			continue
		}
		of := out.FieldByIndex(field.Index)
		if first && of.Kind() == reflect.Bool && of.IsZero() {
			of = out.FieldByName("Code")
		}
		isOwn := of.Kind() == reflect.Struct && of.Type() != reflect.TypeFor[time.Time]()
		if (first || field.Name == "Token") && of.IsZero() || isOwn && !isComplete(of) {
			return false
		}
		first = false
	}
	return true
}
