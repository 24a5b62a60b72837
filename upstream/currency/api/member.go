package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// member is a parameter, or a member of a JSON object, as the reference
// page shows it.
type member struct {
	Name, Type, Description string
	Required                bool
	// Notes are further rules of its schema.
	Notes []string
}

// newMember describes a schema under a name.
func newMember(name string, schema *huma.Schema, required bool) member {
	m := member{Name: name, Type: typeName(schema), Description: schema.Description, Required: required}
	note := func(format string, values ...any) {
		m.Notes = append(m.Notes, fmt.Sprintf(format, values...))
	}
	if len(schema.Enum) > 0 {
		note("One of: %s.", join(schema.Enum, ", "))
	}
	if schema.Default != nil {
		note("Default: %v.", schema.Default)
	}
	if schema.Pattern != "" {
		note("Pattern: %s", schema.Pattern)
	}
	if schema.MinItems != nil && schema.MaxItems != nil {
		note("From %d to %d items.", *schema.MinItems, *schema.MaxItems)
	}
	if schema.MaxLength != nil {
		note("At most %d characters.", *schema.MaxLength)
	}
	if len(schema.Examples) > 0 {
		note("Example: %s", join(schema.Examples, ", "))
	}
	return m
}

// members lists the members of an object and of the objects in it. Their
// names get the prefix. Alternatives are merged.
func members(schemas huma.Registry, schema *huma.Schema, prefix string) []member {
	if schema.Ref != "" {
		schema = schemas.SchemaFromRef(schema.Ref)
	}
	var all []member
	for _, alternative := range schema.OneOf {
		for _, m := range members(schemas, alternative, prefix) {
			if !slices.ContainsFunc(all, func(seen member) bool { return seen.Name == m.Name }) {
				all = append(all, m)
			}
		}
	}
	for _, name := range memberNames(schema) {
		property := schema.Properties[name]
		all = append(all, newMember(prefix+name, property, slices.Contains(schema.Required, name)))
		switch {
		case property.Type == huma.TypeArray:
			all = append(all, members(schemas, property.Items, prefix+name+"[].")...)
		case property.Ref != schemaPrefix+schemaRefusal: // the page of errors has its members
			all = append(all, members(schemas, property, prefix+name+".")...)
		}
	}
	return all
}

// memberNames returns the required members in the order of the JSON, then
// the others sorted.
func memberNames(schema *huma.Schema) []string {
	names := slices.Clone(schema.Required)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// typeName describes the type of a schema.
func typeName(schema *huma.Schema) string {
	name := schema.Type
	switch {
	case len(schema.OneOf) > 0:
		var names []string
		for _, alternative := range schema.OneOf {
			names = append(names, typeName(alternative))
		}
		name = strings.Join(names, " or ")
	case schema.Ref != "":
		name = huma.TypeObject
	case schema.Format == "date" || schema.Format == "date-time":
		name += " (" + schema.Format + ")"
	case schema.Type == huma.TypeObject:
		if values, ok := schema.AdditionalProperties.(*huma.Schema); ok {
			name += " of " + typeName(values) + "s"
		}
	}
	if schema.Nullable {
		name += " or null"
	}
	return name
}

// join writes values with a separator between them.
func join[T any](values []T, separator string) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
	}
	return strings.Join(texts, separator)
}
