package control_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestMembersAreDocumented: each member of the reports and of an import has a
// description.
func TestMembersAreDocumented(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	text, err := json.Marshal(g.must(t, http.StatusOK, "GET", "/tollgate/openapi.json", ""))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Description string
				}
			}
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"Actor", "AuditEntry", "AuditPage", "Refused", "RefusedPage", "UsageCount", "UsageCounts", "UsageTop", "BusyAccount", "NearestLimit",
		"AccountLine", "AccountResult",
	} {
		properties := document.Components.Schemas[name].Properties
		if len(properties) == 0 {
			t.Errorf("the document has no schema %s", name)
		}
		for member, schema := range properties {
			if schema.Description == "" {
				t.Errorf("%s.%s has no description", name, member)
			}
		}
	}
}
