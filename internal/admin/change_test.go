package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// key returns a live key of acc_1 as it is listed.
func (g *gate) key(t *testing.T, id string) api.Key {
	t.Helper()
	var list api.KeyList
	if err := json.Unmarshal(g.Call(t, "GET", keysPath, "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	for _, key := range list.Keys {
		if key.ID == id {
			return key
		}
	}
	t.Fatalf("there is no live key %s", id)
	return api.Key{}
}

// TestChangeKey changes one member at a time, and checks that no other one
// changes.
func TestChangeKey(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	g.Issue(t, `{"name":"other"}`)
	key := g.Issue(t, `{"name":"ci","abilities":["convert","usage"],"ttl":"30d"}`)
	g.Advance(time.Hour)
	want := key.Key
	for _, test := range []struct {
		name, body string
		change     func()
	}{
		{"nothing", `{}`, func() {}},
		{"name", `{"name":" cafe\u0301\t"}`, func() { want.Name = "caf\u00e9" }},
		{"the same name", `{"name":"caf\u00e9"}`, func() {}},
		{"abilities", `{"abilities":["usage","currencies","usage"]}`, func() { want.Abilities = []string{"currencies", "usage"} }},
		{"expiry", `{"expires_at":"2127-01-01T01:00:00+01:00"}`, func() { want.ExpiresAt = new(time.Date(2127, 1, 1, 0, 0, 0, 0, time.UTC)) }},
		{"ttl, from now", `{"ttl":"1d"}`, func() { want.ExpiresAt = new(controltest.Start.Add(25 * time.Hour)) }},
		{"no expiry", `{"expires_at":null}`, func() { want.ExpiresAt = nil }},
		{"limits", `{"limits":[{"endpoint":"convert","period":"day","limit":5},{"endpoint":"all","period":"second","limit":1}]}`, func() {
			want.Limits = []api.Limit{{Endpoint: "convert", Period: "day", Limit: 5}, {Endpoint: "all", Period: "second", Limit: 1}}
		}},
		{"addresses", `{"addresses":["203.0.113.9/24","2001:db8::1"]}`, func() { want.Addresses = []string{"203.0.113.0/24", "2001:db8::1"} }},
		{"other limits", `{"limits":[{"endpoint":"usage","period":"month","limit":0}]}`, func() {
			want.Limits = []api.Limit{{Endpoint: "usage", Period: "month", Limit: 0}}
		}},
		{"no limits", `{"limits":null}`, func() { want.Limits = []api.Limit{} }},
		{"no addresses", `{"addresses":[]}`, func() { want.Addresses = []string{} }},
		{"all", `{"name":"ci","abilities":["convert"],"expires_at":"2127-01-01T00:00:00Z","limits":[],"addresses":null}`, func() {
			want.Name, want.Abilities, want.ExpiresAt = "ci", []string{"convert"}, new(time.Date(2127, 1, 1, 0, 0, 0, 0, time.UTC))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.change()
			var got api.Key
			w := g.Call(t, "PATCH", keysPath+"/"+key.ID, test.body)
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, g.key(t, key.ID)); diff != "" {
				t.Errorf("listed (-want +got):\n%s", diff)
			}
			grant, ok := g.Opens(t, key.Token)
			if !ok || grant.KeyName != want.Name || grant.Abilities != strings.Join(want.Abilities, " ") ||
				(grant.Restriction != nil) != (len(want.Limits)+len(want.Addresses) > 0) {
				t.Errorf("the token opens %v %+v", ok, grant)
			}
		})
	}
	g.Must(t, http.StatusOK, "PATCH", keysPath+"/"+key.ID, `{"ttl":"1h"}`)
	g.Advance(time.Hour)
	if _, ok := g.Opens(t, key.Token); ok {
		t.Error("the token opens after its new expiry")
	}
	g.Refused(t, http.StatusNotFound, "not_found", "PATCH", keysPath+"/"+key.ID, `{"expires_at":null}`)
}

func TestChangeKeyRefusals(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	g.Account(t, "acc_2", "starter")
	g.Issue(t, `{"name":"taken"}`)
	key := g.Issue(t, `{"name":"ci","abilities":["convert"],"limits":[{"endpoint":"convert","period":"day","limit":5}]}`)
	for _, test := range []struct {
		body   string
		status int
		code   string
	}{
		{`{"name":"taken"}`, 409, "name_taken"},
		{`{"name":null}`, 400, "invalid_name"},
		{`{"name":""}`, 400, "invalid_name"},
		{`{"abilities":null}`, 400, "invalid_request"},
		{`{"abilities":[]}`, 400, "invalid_request"},
		{`{"abilities":["convert","admin"]}`, 403, "not_entitled"},
		{`{"expires_at":"2126-11-20T09:00:00Z"}`, 400, "invalid_expiry"},
		{`{"expires_at":"9999-12-31T00:00:00Z"}`, 400, "invalid_expiry"},
		{`{"expires_at":"2127-01-01T00:00:00Z","ttl":"1h"}`, 400, "invalid_expiry"},
		{`{"ttl":"soon"}`, 400, "invalid_expiry"},
		{`{"ttl":""}`, 400, "invalid_request"},
		{`{"name":"new","limits":[{"endpoint":"other","period":"day","limit":5}]}`, 400, "unknown_endpoint"},
		{`{"name":"new","addresses":["here"]}`, 400, "invalid_address"},
		{`{"limits":[{"endpoint":"convert","period":"day"}]}`, 400, "invalid_request"},
	} {
		g.Refused(t, test.status, test.code, "PATCH", keysPath+"/"+key.ID, test.body)
		if diff := cmp.Diff(key.Key, g.key(t, key.ID)); diff != "" {
			t.Fatalf("%s: the refused call changed the key (-want +got):\n%s", test.body, diff)
		}
	}
	for _, path := range []string{
		"/tollgate/accounts/acc_2/keys/" + key.ID, "/tollgate/accounts/stranger/keys/" + key.ID, keysPath + "/key_unknown",
		keysPath + "/" + g.Issue(t, `{"kind":"login"}`).ID,
	} {
		g.Refused(t, http.StatusNotFound, "not_found", "PATCH", path, `{"name":"new"}`)
	}
	g.Advance(time.Minute)
	g.Must(t, http.StatusCreated, "POST", keysPath+"/"+key.ID+"/rotate", `{"overlap":"1h"}`)
	g.Refused(t, http.StatusConflict, "key_replaced", "PATCH", keysPath+"/"+key.ID, `{"ttl":"2h"}`)
	g.Must(t, http.StatusNoContent, "DELETE", keysPath+"/"+key.ID, "")
	g.Refused(t, http.StatusNotFound, "not_found", "PATCH", keysPath+"/"+key.ID, `{"name":"new"}`)
	if _, ok := g.Opens(t, key.Token); ok {
		t.Error("a change revived a revoked key")
	}
}

// A key keeps abilities that its plan no longer has, also when they are
// written again, and gets no other ones.
func TestAbilitiesOfAnEarlierPlan(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	key := g.Issue(t, `{"name":"ci","abilities":["convert","usage"]}`)
	g.Account(t, "acc_1", "business")
	path := keysPath + "/" + key.ID
	g.Must(t, http.StatusOK, "PATCH", path, `{"abilities":["usage","currencies"]}`)
	g.Must(t, http.StatusOK, "PATCH", path, `{"abilities":["currencies"]}`)
	g.Refused(t, http.StatusForbidden, "not_entitled", "PATCH", path, `{"abilities":["usage"]}`)
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"plan":"free","disabled":true}`)
	g.Must(t, http.StatusOK, "PATCH", path, `{"abilities":["currencies"],"addresses":["203.0.113.5"]}`)
	g.Refused(t, http.StatusForbidden, "not_entitled", "PATCH", path, `{"abilities":["convert"]}`)
	g.Configure(t, policy.Config{}) // a plan that does not exist any more
	g.Must(t, http.StatusOK, "PATCH", path, `{"abilities":["currencies"]}`)
}

func TestKeyLimits(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	key := g.Issue(t, `{"name":"ci","limits":[{"endpoint":"all","period":"month","limit":1000000000000000},{"endpoint":"convert","period":"day","limit":0}]}`)
	want := []api.Limit{{Endpoint: "all", Period: "month", Limit: 1000000000000000}, {Endpoint: "convert", Period: "day", Limit: 0}}
	if diff := cmp.Diff(want, key.Limits); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
	grant, _ := g.Opens(t, key.Token)
	restriction := &store.Restriction{CountsAs: key.ID, Limits: []store.Limit{
		{Endpoint: "all", Period: store.Month, Max: 1000000000000000, OfKey: true}, {Endpoint: "convert", Period: store.Day, Max: 0, OfKey: true},
	}}
	if diff := cmp.Diff(restriction, grant.Restriction, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("granted (-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		name, limits string
		code         string
	}{
		{"unknown endpoint", `[{"endpoint":"other","period":"day","limit":5}]`, "unknown_endpoint"},
		{"unknown period", `[{"endpoint":"convert","period":"fortnight","limit":5}]`, "invalid_request"},
		{"pace of zero", `[{"endpoint":"convert","period":"minute","limit":0}]`, "invalid_limit"},
		{"duplicate", `[{"endpoint":"convert","period":"day","limit":5},{"endpoint":"convert","period":"day","limit":6}]`, "invalid_limit"},
		{"too many", `[` + strings.Repeat(`{"endpoint":"convert","period":"day","limit":5},`, store.MaxKeyLimits) + `{"endpoint":"all","period":"day","limit":5}]`, "invalid_request"},
	} {
		g.Refused(t, http.StatusBadRequest, test.code, "POST", keysPath, `{"name":"`+test.name+`","limits":`+test.limits+`}`)
	}
	if diff := cmp.Diff([]string{"ci"}, g.names(t, "")); diff != "" {
		t.Errorf("a refused call made a key:\n%s", diff)
	}
}

func TestKeyAddresses(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	for i, test := range []struct {
		given string
		want  []string // nil: refused
	}{
		{`["203.0.113.0/24"]`, []string{"203.0.113.0/24"}},
		{`["203.0.113.77/24","203.0.113.0/24"]`, []string{"203.0.113.0/24"}},
		{`["203.0.113.5","203.0.113.5/32"]`, []string{"203.0.113.5"}},
		{`["2001:DB8:0::1","2001:db8::1/128"]`, []string{"2001:db8::1"}},
		{`["2001:db8::1/32","10.0.0.0/8"]`, []string{"2001:db8::/32", "10.0.0.0/8"}},
		{`["::ffff:203.0.113.5","203.0.113.5"]`, []string{"203.0.113.5"}},
		{`["::ffff:203.0.113.5/120"]`, []string{"203.0.113.0/24"}},
		{`["::ffff:0:0/96"]`, []string{"0.0.0.0/0"}},
		{`[]`, []string{}},
		{`["::ffff:203.0.113.5/90"]`, nil}, // would contain no IPv4 address
		{`["fe80::1%eth0"]`, nil},
		{`["203.0.113.0/33"]`, nil},
		{`["203.0.113.0/024"]`, nil},
		{`["010.0.0.1"]`, nil},
		{`["localhost"]`, nil},
		{`[""]`, nil},
		{`["10.0.0.1","` + strings.Repeat("x", 1000) + `"]`, nil},
	} {
		body := fmt.Sprintf(`{"name":"key %d","addresses":%s}`, i, test.given)
		if test.want == nil {
			g.Refused(t, http.StatusBadRequest, "invalid_address", "POST", keysPath, body)
			continue
		}
		key := g.Issue(t, body)
		if diff := cmp.Diff(test.want, key.Addresses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.given, diff)
		}
	}
	if w := g.Call(t, "POST", keysPath, `{"name":"x","addresses":["10.0.0.0/99"]}`); !strings.Contains(w.Body.String(), `\"10.0.0.0/99\"`) {
		t.Errorf("the message does not name the value: %s", w.Body)
	}
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("%q", netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})))
		}
		return `{"name":"many","addresses":[` + strings.Join(list, ",") + `]}`
	}
	g.Refused(t, http.StatusBadRequest, "invalid_request", "POST", keysPath, many(store.MaxAddresses+1))
	g.Issue(t, many(store.MaxAddresses))
	for _, member := range []string{`"addresses":["10.0.0.1"]`, `"limits":[{"endpoint":"all","period":"day","limit":5}]`} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "POST", keysPath, `{"kind":"login",`+member+`}`)
	}
}

// TestTokenMoved: the token of an imported key that has just expired can be a
// key of another account before the expiry is put off. Then the key has ended.
func TestTokenMoved(t *testing.T) {
	t.Parallel()
	s := new(controltest.Steps)
	g := newGateOver(t, s)
	g.Account(t, "acc_1", "starter")
	key := keysPath + "/" + g.Issue(t, `{"name":"ci","ttl":"1h"}`).ID
	s.After = func(errs []error) { errs[0] = store.ErrTokenTaken }
	g.Refused(t, http.StatusNotFound, "not_found", "PATCH", key, `{"ttl":"1d"}`)
}
