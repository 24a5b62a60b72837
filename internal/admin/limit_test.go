package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const limitsPath = "/tollgate/accounts/acc_1/limits"

// limits returns the overrides of acc_1, each as "endpoint period limit".
func (g *gate) limits(t *testing.T) []string {
	t.Helper()
	list := []string{}
	for _, o := range g.Must(t, http.StatusOK, "GET", limitsPath, "")["limits"].([]any) {
		o := o.(map[string]any)
		list = append(list, fmt.Sprintf("%v %v %v", o["endpoint"], o["period"], o["limit"]))
	}
	return list
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	key := g.Issue(t, `{"name":"ci"}`)
	if got := g.Call(t, "GET", limitsPath, "").Body.String(); got != `{"limits":[]}`+"\n" {
		t.Errorf("none: got %s", got)
	}
	want := map[string]any{
		"endpoint": "convert", "period": "month", "limit": 5000.0, "expires_at": "2127-01-01T00:00:00Z", "reason": "trade fair",
		"created_at": "2126-11-20T09:00:00Z",
	}
	got := g.Must(t, http.StatusOK, "PUT", limitsPath+"/convert/month", `{"limit":5000,"expires_at":"2127-01-01T01:00:00+01:00","reason":"trade fair"}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	listed := g.Must(t, http.StatusOK, "GET", limitsPath, "")
	if diff := cmp.Diff(map[string]any{"limits": []any{want}}, listed); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	g.Must(t, http.StatusOK, "PUT", limitsPath+"/all/second", `{"limit":3}`)
	g.Must(t, http.StatusOK, "PUT", limitsPath+"/usage/day", `{"limit":0}`)
	grant, _ := g.Opens(t, key.Token)
	if len(grant.Terms.Overrides) != 3 {
		t.Errorf("the next grant has the overrides %+v", grant.Terms.Overrides)
	}

	// A replacement is a new override.
	g.Advance(time.Hour)
	want = map[string]any{
		"endpoint": "convert", "period": "month", "limit": nil, "expires_at": nil, "reason": "", "created_at": "2126-11-20T10:00:00Z",
	}
	got = g.Must(t, http.StatusOK, "PUT", limitsPath+"/convert/month", `{"limit":null,"expires_at":null}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"all second 3", "usage day 0", "convert month <nil>"}, g.limits(t)); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}

	// Other changes of the account keep the overrides.
	g.Account(t, "acc_1", "business")
	g.Must(t, http.StatusNoContent, "DELETE", limitsPath+"/usage/day", "")
	g.Refused(t, http.StatusNotFound, "not_found", "DELETE", limitsPath+"/usage/day", "")
	if diff := cmp.Diff([]string{"all second 3", "convert month <nil>"}, g.limits(t)); diff != "" {
		t.Errorf("after one was removed (-want +got):\n%s", diff)
	}
	if grant, _ := g.Opens(t, key.Token); len(grant.Terms.Overrides) != 2 {
		t.Errorf("the next grant has the overrides %+v", grant.Terms.Overrides)
	}
}

func TestOverrideRequests(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	for _, test := range []struct {
		name, target, body string
		status             int
		code               string
	}{
		{"no limit", "convert/day", `{}`, 400, "invalid_request"},
		{"too large a limit", "convert/day", `{"limit":1000000000000001}`, 400, "invalid_request"},
		{"limit beyond 64 bits", "convert/day", `{"limit":18446744073709551617}`, 400, "invalid_request"},
		{"fraction", "convert/day", `{"limit":1.5}`, 400, "invalid_request"},
		{"exponent", "convert/day", `{"limit":1e3}`, 400, "invalid_request"},
		{"limit of zero", "convert/day", `{"limit":0}`, 200, ""},
		{"pace of zero", "convert/second", `{"limit":0}`, 400, "invalid_limit"},
		{"unlimited pace", "convert/second", `{"limit":null}`, 200, ""},
		{"smallest pace", "convert/hour", `{"limit":1}`, 200, ""},
		{"unknown endpoint", "other/day", `{"limit":1}`, 404, "unknown_endpoint"},
		{"long endpoint", strings.Repeat("x", 300) + "/day", `{"limit":1}`, 404, "unknown_endpoint"},
		{"slash in the endpoint", "convert%2Fx/day", `{"limit":1}`, 404, "unknown_endpoint"},
		{"star", "*/day", `{"limit":1}`, 404, "unknown_endpoint"},
		{"all endpoints", "all/day", `{"limit":1}`, 200, ""},
		{"unknown period", "convert/fortnight", `{"limit":1}`, 400, "invalid_period"},
		{"no period", "convert", `{"limit":1}`, 404, "not_found"},
		{"expiry now", "convert/day", `{"limit":1,"expires_at":"2126-11-20T09:00:00Z"}`, 400, "invalid_expiry"},
		{"expiry beyond 100 years", "convert/day", `{"limit":1,"expires_at":"2300-01-01T00:00:00Z"}`, 400, "invalid_expiry"},
		{"longest reason", "convert/day", `{"limit":1,"reason":"` + strings.Repeat("é", 200) + `"}`, 200, ""},
		{"too long a reason", "convert/day", `{"limit":1,"reason":"` + strings.Repeat("é", 201) + `"}`, 400, "invalid_reason"},
		{"control character in the reason", "convert/day", `{"limit":1,"reason":"a\u001bb"}`, 400, "invalid_reason"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := g.limits(t)
			if test.status == http.StatusOK {
				g.Must(t, http.StatusOK, "PUT", limitsPath+"/"+test.target, test.body)
				return
			}
			g.Refused(t, test.status, test.code, "PUT", limitsPath+"/"+test.target, test.body)
			if diff := cmp.Diff(before, g.limits(t)); diff != "" {
				t.Errorf("the refused call changed an override:\n%s", diff)
			}
		})
	}
	g.Refused(t, http.StatusBadRequest, "invalid_period", "DELETE", limitsPath+"/convert/fortnight", "")
	g.Refused(t, http.StatusNotFound, "not_found", "DELETE", limitsPath+"/other/day", "")

	// A refused call does not make an account.
	stranger := "/tollgate/accounts/stranger"
	g.Refused(t, http.StatusNotFound, "not_found", "PUT", stranger+"/limits/convert/day", `{"limit":1}`)
	g.Refused(t, http.StatusNotFound, "not_found", "DELETE", stranger+"/limits/convert/day", "")
	g.Refused(t, http.StatusNotFound, "not_found", "GET", stranger+"/limits", "")
	g.Refused(t, http.StatusNotFound, "not_found", "GET", stranger, "")
}

// TestOverridesEnd checks that an override that has ended is as none, and that
// it makes room for others.
func TestOverridesEnd(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	config := controltest.Config()
	for i := range store.MaxOverrides {
		config.Endpoints = append(config.Endpoints, policy.EndpointConfig{Name: fmt.Sprintf("e%d", i), Patterns: []string{fmt.Sprintf("GET /api/e%d", i)}})
	}
	g.Configure(t, config)
	g.Account(t, "acc_1", "starter")
	for i := range store.MaxOverrides {
		body := `{"limit":1}`
		if i == 0 {
			body = `{"limit":1,"expires_at":"2126-11-20T10:00:00Z"}`
		}
		g.Must(t, http.StatusOK, "PUT", fmt.Sprintf("%s/e%d/day", limitsPath, i), body)
	}
	g.Refused(t, http.StatusConflict, "too_many_limits", "PUT", limitsPath+"/convert/day", `{"limit":1}`)
	g.Must(t, http.StatusOK, "PUT", limitsPath+"/e0/day", `{"limit":2,"expires_at":"2126-11-20T10:00:00Z"}`) // a replacement needs no room
	g.Advance(time.Hour - time.Millisecond)
	g.Refused(t, http.StatusConflict, "too_many_limits", "PUT", limitsPath+"/convert/day", `{"limit":1}`)
	if got := g.limits(t); len(got) != store.MaxOverrides {
		t.Errorf("before the end: got %d overrides", len(got))
	}
	g.Advance(time.Millisecond)
	if got := g.limits(t); len(got) != store.MaxOverrides-1 {
		t.Errorf("after the end: got %d overrides", len(got))
	}
	g.Refused(t, http.StatusNotFound, "not_found", "DELETE", limitsPath+"/e0/day", "")
	g.Must(t, http.StatusOK, "PUT", limitsPath+"/convert/day", `{"limit":1}`)
	account, err := g.Opened().Account(t.Context(), "acc_1")
	if err != nil || len(account.Overrides) != store.MaxOverrides {
		t.Errorf("the store keeps %d overrides, %v", len(account.Overrides), err)
	}
}

// An operator must be able to remove an override of an endpoint that the
// configuration no longer has, and to see it.
func TestOverrideOfAnEndpointThatIsGone(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	g.Must(t, http.StatusOK, "PUT", limitsPath+"/convert/day", `{"limit":1}`)
	g.Configure(t, policy.Config{})
	if diff := cmp.Diff([]string{"convert day 1"}, g.limits(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.Must(t, http.StatusOK, "GET", "/tollgate/accounts/acc_1/usage", "")
	g.Must(t, http.StatusNoContent, "DELETE", limitsPath+"/convert/day", "")
}

// Threat: a support agent who may set limits opens endpoints that the account
// does not pay for.
func TestOverrideOpensNothing(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "business")
	g.Must(t, http.StatusOK, "PUT", limitsPath+"/batch/day", `{"limit":1000}`)
	if _, listed := g.Used(t)["batch"]; listed {
		t.Error("the usage lists an endpoint that the plan does not list")
	}
	g.Account(t, "acc_1", "free")
	g.Must(t, http.StatusOK, "PUT", limitsPath+"/convert/day", `{"limit":1000}`)
	g.Refused(t, http.StatusForbidden, "plan_required", "POST", keysPath, `{"name":"ci"}`)
}
