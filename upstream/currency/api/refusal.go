package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// addRefusals adds to a document an example of each refusal, and the list of
// all codes.
func addRefusals(document *huma.OpenAPI) {
	var examples map[string]json.RawMessage
	must(json.Unmarshal(exampleOf("refusals.json"), &examples))
	code := document.Components.Schemas.Map()[schemaRefusal].Properties["code"]
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		code.Enum = append(code.Enum, name)
	}
	for _, path := range document.Paths {
		for _, operation := range []*huma.Operation{path.Get, path.Post} {
			if operation == nil {
				continue
			}
			for _, response := range operation.Responses {
				addExamples(response, examples)
			}
		}
	}
}

// addExamples adds the examples of the codes in the description of a response.
func addExamples(response *huma.Response, examples map[string]json.RawMessage) {
	codes := codesOf(response)
	if len(codes) == 0 {
		return
	}
	media := response.Content[mediaType]
	media.Examples = map[string]*huma.Example{}
	for _, code := range codes {
		if examples[code] == nil {
			panic(fmt.Errorf("the code %s has no example", code))
		}
		media.Examples[code] = &huma.Example{Value: examples[code]}
	}
}

// codesOf returns the codes of a refusal, nil for another response.
func codesOf(response *huma.Response) []string {
	_, codes, found := strings.Cut(strings.TrimSuffix(response.Description, "."), codesPrefix)
	if !found {
		return nil
	}
	return strings.Split(codes, ", ")
}
