package api

import (
	"net/url"
	"reflect"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// TestInputIsDocumented compares what is read with what huma documents: each
// parameter, its place and its default.
func TestInputIsDocumented(t *testing.T) {
	t.Parallel()
	inputs := map[string]reflect.Type{
		"currencies": reflect.TypeFor[currenciesInput](), "convert": reflect.TypeFor[convertInput](),
		"rates": reflect.TypeFor[ratesInput](), "history": reflect.TypeFor[historyInput](), "batch": reflect.TypeFor[batchInput](),
	}
	documentation := huma.NewAPI(configuration(&url.URL{}), unserved{})
	for _, o := range operations() {
		id := o.name
		operation, served := o.add(new(service), documentation)
		if served == nil {
			continue
		}
		in := inputOf(inputs[id])
		read := map[string]any{}
		for _, p := range in.path {
			read["path "+p.name] = ""
		}
		for _, p := range in.query {
			read["query "+p.name] = p.value
		}
		described := map[string]any{}
		for _, p := range operation.Parameters {
			described[p.In+" "+p.Name] = ""
			if p.Schema.Default != nil {
				described[p.In+" "+p.Name] = p.Schema.Default
			}
		}
		if !reflect.DeepEqual(read, described) {
			t.Errorf("%s reads %v, the document has %v", id, read, described)
		}
		if got, want := in.body >= 0, operation.RequestBody != nil; got != want {
			t.Errorf("%s reads a body: %v, want %v", id, got, want)
		}
	}
}
