package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestRename: after a rename all answers and requests have the new name, and
// the way back is free.
func TestRename(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	c := g.Client()
	g.Account(t, "acc_1", "starter")
	first := g.Issue(t, `{"name":"first","abilities":["convert"],"limits":[{"endpoint":"convert","period":"day","limit":9}]}`)
	g.Must(t, http.StatusOK, "PUT", limitsPath+"/convert/month", `{"limit":70}`)
	g.Take(t, "convert", 3)
	if err := g.Opened().AddRefused(t.Context(), []store.Refused{{Day: g.Policy().Calendar.At(g.Now()).Day, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 2}}); err != nil {
		t.Fatal(err)
	}
	census := g.Must(t, http.StatusOK, "GET", "/tollgate/census", "")

	before, after := controltest.Config(), controltest.Config()
	after.Endpoints[1].Name, after.Endpoints[1].Rename = "exchange", []string{"convert", "trade"}
	after.Endpoints[2].Ability = "exchange"
	after.Plans[1].Limits = controltest.Limits(map[string]int64{"currencies": 100, "exchange": 1000, "batch": 50, "usage": 1000})
	after.Plans[2].Limits = controltest.Limits(map[string]int64{"exchange": 100000})
	g.Configure(t, after)
	wantAbility := func(name, ability string, id string) {
		t.Helper()
		key := g.key(t, id)
		if key.Name != name || strings.Join(key.Abilities, " ") != ability {
			t.Errorf("got the key %+v, want the ability %s", key, ability)
		}
	}
	wantAbility("first", "exchange", first.ID)
	if got := g.key(t, first.ID).Limits; len(got) != 1 || got[0].Endpoint != "exchange" {
		t.Errorf("the key has the limits %+v", got)
	}
	if got, want := g.limits(t), []string{"exchange month 70"}; !cmp.Equal(got, want) {
		t.Errorf("got the overrides %q, want %q", got, want)
	}
	if got := g.Used(t); got["exchange"] != 3 || got["convert"] != 0 {
		t.Errorf("used %v", got)
	}
	refused, err := c.Refused(t.Context(), api.RefusedQuery{Days: 1})
	if err != nil || len(refused.Refused) != 1 || refused.Refused[0].Endpoint != "exchange" {
		t.Errorf("got the refused calls %+v, %v", refused, err)
	}
	if diff := cmp.Diff(census, g.Must(t, http.StatusOK, "GET", "/tollgate/census", "")); diff != "" {
		t.Errorf("the census has other names after the rename:\n%s", diff)
	}

	// The older names are not those of today.
	for _, old := range []string{"convert", "trade"} {
		g.Refused(t, http.StatusNotFound, "unknown_endpoint", "PUT", limitsPath+"/"+old+"/day", `{"limit":1}`)
		g.Refused(t, http.StatusNotFound, "not_found", "DELETE", limitsPath+"/"+old+"/month", "")
		g.Refused(t, http.StatusForbidden, "not_entitled", "POST", "/tollgate/accounts/acc_1/keys", fmt.Sprintf(`{"name":"x","abilities":[%q]}`, old))
	}
	second := g.Issue(t, `{"name":"second","abilities":["exchange"],"limits":[{"endpoint":"exchange","period":"day","limit":8}]}`)
	g.Must(t, http.StatusOK, "PUT", limitsPath+"/exchange/day", `{"limit":60}`)
	g.Must(t, http.StatusOK, "PATCH", "/tollgate/accounts/acc_1/keys/"+first.ID, `{"name":"first again"}`)
	wantAbility("first again", "exchange", first.ID)
	audit, err := c.Audit(t.Context(), api.AuditQuery{Order: "desc", Limit: 3})
	text, _ := json.Marshal(audit) // never fails
	if err != nil || len(audit.Audit) != 3 || audit.Audit[1].Target != "exchange/day" || strings.Contains(string(text), "convert") {
		t.Errorf("got the audit log %s, %v", text, err)
	}

	g.Configure(t, before)
	wantAbility("second", "convert", second.ID)
	wantAbility("first again", "convert", first.ID)
	if got, want := g.limits(t), []string{"convert month 70", "convert day 60"}; !cmp.Equal(got, want) {
		t.Errorf("before: got the overrides %q, want %q", got, want)
	}
}
