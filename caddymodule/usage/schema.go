package usage

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// SchemaName names the schemas of an OpenAPI document that describes a
// Document among other things. Those of this package are called Usage…:
// a name such as Day alone would tell nobody of what.
func SchemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.PkgPath() == reflect.TypeFor[Document]().PkgPath() {
		return "Usage" + name
	}
	return name
}
