package api

import (
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// TestInputRefuses: an input that this package cannot read fails when the API
// is made, not when the first request comes.
func TestInputRefuses(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]any{
		"number": struct {
			N int `query:"n"`
		}{},
		"named":  struct{ Body string }{},
		"no tag": struct{ A string }{},
		"header": struct {
			H string `header:"h"`
		}{},
		"options": struct {
			A string `query:"a,explode"`
		}{},
		"embedded": struct{ convertInput }{},
	} {
		if in, err := inputOf(reflect.TypeOf(input)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, in)
		}
	}
	type unread struct {
		Count int `query:"count"`
	}
	e := endpoints()[0]
	e.register = register(func(*service, *unread) (*currencyList, *apierror.Error) { return nil, nil })
	if _, err := e.add(new(service), huma.NewAPI(configuration(&url.URL{}), unserved{})); err == nil || !strings.Contains(err.Error(), "Count") {
		t.Errorf("got %v, want an error that names the field", err)
	}
}

// TestInputIsDocumented compares what is read with what huma documents: each
// parameter, its place and its default.
func TestInputIsDocumented(t *testing.T) {
	t.Parallel()
	inputs := map[string]reflect.Type{
		"currencies": reflect.TypeFor[currenciesInput](), "convert": reflect.TypeFor[convertInput](),
		"rates": reflect.TypeFor[ratesInput](), "history": reflect.TypeFor[historyInput](), "batch": reflect.TypeFor[batchInput](),
	}
	documentation := huma.NewAPI(configuration(&url.URL{}), unserved{})
	for _, e := range endpoints() {
		id := e.name
		if _, err := e.add(new(service), documentation); err != nil {
			t.Fatal(err)
		}
		in, err := inputOf(inputs[id])
		if err != nil {
			t.Fatal(err)
		}
		read := map[string]any{}
		for _, p := range in.path {
			read["path "+p.name] = ""
		}
		for _, p := range in.query.known {
			read["query "+p.name] = p.value
		}
		operation, described := documented(documentation.OpenAPI(), e.operation), map[string]any{}
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
