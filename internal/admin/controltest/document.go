package controltest

import (
	"encoding/json"
	"math"
	"slices"
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
