package apierror

import (
	"reflect"
	"strings"
	"time"
)

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

// JSONType names the JSON type that a Go type is read from, for messages.
func JSONType(t reflect.Type) string {
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
