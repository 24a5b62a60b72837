package control_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
)

// TestMembersAreDocumented: each member of the reports and of an import has a
// description.
func TestMembersAreDocumented(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	r := httptest.NewRequest(http.MethodGet, "/tollgate/openapi.json", nil)
	r.Header.Set("Authorization", "Bearer "+controltest.Secret)
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Description string
				}
			}
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"Actor", "AuditEntry", "AuditPage", "Refused", "RefusedPage", "UsageCount", "UsageCounts", "UsageTop", "BusyAccount", "NearestLimit",
		"AccountLine", "AccountLookup", "KeyLine", "LineResult", "Introspection", "IntrospectionRequest",
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
