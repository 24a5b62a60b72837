package controltest

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// ShortIntegers returns the integers in an OpenAPI document that generated
// clients read into 32 bits although larger numbers are allowed: those without
// a format and without a small maximum.
func ShortIntegers(document []byte) ([]string, error) {
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		return nil, err
	}
	var found []string
	var walk func(place string, value any)
	walk = func(place string, value any) {
		switch value := value.(type) {
		case []any:
			for _, v := range value {
				walk(place, v)
			}
		case map[string]any:
			kinds, _ := value["type"].([]any)
			most, bounded := value["maximum"].(float64)
			isInteger := value["type"] == "integer" || slices.Contains(kinds, any("integer"))
			if isInteger && value["format"] != "int64" && (!bounded || most > math.MaxInt32) {
				found = append(found, place)
			}
			for name, v := range value {
				walk(place+"/"+name, v)
			}
		}
	}
	walk("", value)
	return found, nil
}

// DocumentOf returns the OpenAPI document of a control API.
func DocumentOf(t *testing.T, handler http.Handler) *openapi3.T {
	t.Helper()
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/tollgate/openapi.json"}, Header: http.Header{"Authorization": {"Bearer " + Secret}}}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	document, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return document
}
