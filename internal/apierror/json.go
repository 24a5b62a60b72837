package apierror

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads one JSON value as every parser reads it (RFC 8259, section 4; RFC
// 7493): without duplicate or unknown members, invalid UTF-8, or data after the
// value. The names of members are case-sensitive. An error says where and what
// is allowed, without the Go types that the parser names. subject is what is
// read, for messages.
func Decode(subject string, data []byte, v any) error {
	err := json.Unmarshal(data, v, json.RejectUnknownMembers(true))
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	member := func(at jsontext.Pointer) string { return strings.TrimPrefix(string(at), "/") }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("duplicate member %.64q", member(syntactic.JSONPointer))
	case errors.As(err, &syntactic):
		return fmt.Errorf("%s is not valid JSON from byte %d on", subject, syntactic.ByteOffset)
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("unknown member %.64q; allowed: %s", member(semantic.JSONPointer), Members(semantic.GoType))
	case errors.As(err, &semantic):
		return fmt.Errorf("the value at %.64q must be %s", semantic.JSONPointer, JSONType(semantic.GoType))
	default:
		return errors.New(subject + " is not valid JSON")
	}
}

// Members lists the members of the JSON object that a struct is read from, for
// messages.
func Members(object reflect.Type) string {
	var names []string
	for _, field := range reflect.VisibleFields(object) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && !field.Anonymous && name != "-" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// JSONType names the JSON type that a Go type is read from, for messages. A type
// that reads JSON itself can have a method for it.
func JSONType(t reflect.Type) string {
	if named, ok := reflect.Zero(t).Interface().(interface{ JSONType() string }); ok {
		return named.JSONType()
	}
	if t == reflect.TypeFor[time.Time]() {
		return "a time in RFC 3339, such as 2026-11-01T00:00:00Z"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return JSONType(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	}
	return "an object"
}
