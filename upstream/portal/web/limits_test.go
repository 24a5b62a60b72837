package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// limitForm is the fields of a key with rows of limits: each row is its
// number, period and endpoint.
func limitForm(addresses string, rows ...[3]string) url.Values {
	form := url.Values{"name": {"ci"}, "ability": {"convert"}, "life": {"90"}, "addresses": {addresses}}
	for _, row := range rows {
		form.Add("limit", row[0])
		form.Add("limit_period", row[1])
		form.Add("limit_endpoint", row[2])
	}
	return form
}

// only returns the one live key of an account.
func (w *world) only(account string) api.Key {
	w.t.Helper()
	keys, err := w.gate.Client.Keys(w.t.Context(), account, client.KeyFilter{})
	if err != nil || len(keys) != 1 {
		w.t.Fatalf("got %d keys, %v, want 1", len(keys), err)
	}
	return keys[0]
}

// A key with limits and addresses from its form to its pages.
func TestLimitedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "business")
	ada := w.person().signIn("ada@example.com")
	empty := ada.get("/settings/keys/new")
	empty.has(t, http.StatusOK, "<details>", `<option value="" selected>no limit</option>`, `<option>rates</option>`)

	form := limitForm("203.0.113.0/24\r\n 2001:db8::1 \r\n", [3]string{" 1,500 ", "day", "convert"}, [3]string{"", "month", ""}, [3]string{"9", "month", "none"}, [3]string{"5", "second", "all"})
	ada.do(http.MethodPost, "/settings/keys/new", form).
		has(t, http.StatusOK, "ci is ready", "Limits: convert: 1,500 a day; All endpoints: at most 5 a second.", "It works only from 203.0.113.0/24, 2001:db8::1.")
	key := w.only(a.ID)
	limits := []api.Limit{{Endpoint: "convert", Period: "day", Limit: 1500}, {Endpoint: "all", Period: "second", Limit: 5}}
	if !slices.Equal(key.Limits, limits) || !slices.Equal(key.Addresses, []string{"203.0.113.0/24", "2001:db8::1"}) {
		t.Errorf("got %+v %v", key.Limits, key.Addresses)
	}
	ada.get("/settings/keys").has(t, http.StatusOK, "convert: 1,500 a day", "from 203.0.113.0/24, 2001:db8::1")
	page := "/settings/keys/" + key.ID
	ada.get(page).has(t, http.StatusOK, "All endpoints: at most 5 a second", "<code>2001:db8::1</code>", "<strong>0</strong> of 1,500 used", page+"/edit")
	ada.get("/usage").has(t, http.StatusOK, "<strong>convert</strong> with key ci", "<strong>0</strong> of 1,500 used", "<strong>All endpoints</strong> with key ci: at most 5 a second")
	ada.get(page+"/edit").has(t, http.StatusOK, "<details open>", `value="1500"`, "203.0.113.0/24\n2001:db8::1</textarea>")
}

// A mistake in the form of a key is shown at its field. The form keeps all
// that was typed, and no key is made or changed.
func TestLimitMistakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "business")
	ada := w.person().signIn("ada@example.com")
	page := w.issue(a.ID, "old")
	good := [3]string{"7", "month", "rates"}
	many := strings.TrimSpace(strings.Repeat("203.0.113.7 ", 33))
	for _, c := range []struct {
		says string
		form url.Values
	}{
		{"A limit is a whole number from 0 to 10^15, such as 1000.", limitForm("203.0.113.7", good, [3]string{"many", "day", "convert"})},
		{"A limit is a whole number from 0 to 10^15, such as 1000.", limitForm("203.0.113.7", good, [3]string{"1000000000000001", "day", "convert"})},
		{"Enter the number of calls of this limit, or choose “remove this limit”.", limitForm("203.0.113.7", good, [3]string{"", "day", "convert"})},
		{"Choose the endpoint of this limit, or clear the number.", limitForm("203.0.113.7", good, [3]string{"1000", "day", ""})},
		{"A limit an hour is at least 1.", limitForm("203.0.113.7", good, [3]string{"0", "hour", "convert"})},
		{"A key has only one limit a month for rates.", limitForm("203.0.113.7", good, [3]string{"9", "month", "rates"})},
		{"A limit is for an endpoint that the API no longer has. Choose “remove this limit”.", limitForm("203.0.113.7", good, [3]string{"9", "day", "quotes"})},
		{"example.com is neither an IP address nor a network such as 203.0.113.0/24.", limitForm("203.0.113.7\nexample.com", good)},
		{"An address is not valid.", limitForm("::ffff:0:0/90", good)},
		{"A key has at most 32 addresses.", limitForm(many, good)},
		{"Give the key a name of 1 to 64", url.Values{"name": {"\u200b"}, "ability": {"convert"}, "life": {"90"}, "addresses": {"203.0.113.7"}, "limit": {"7"}, "limit_period": {"month"}, "limit_endpoint": {"rates"}}},
		{"Choose at least one endpoint.", url.Values{"name": {"ci"}, "life": {"90"}, "addresses": {"203.0.113.7"}, "limit": {"7"}, "limit_period": {"month"}, "limit_endpoint": {"rates"}}},
		{"Your plan does not have all of these endpoints.", url.Values{"name": {"ci"}, "ability": {"quotes"}, "life": {"90"}, "addresses": {"203.0.113.7"}, "limit": {"7"}, "limit_period": {"month"}, "limit_endpoint": {"rates"}}},
	} {
		for _, target := range []string{"/settings/keys/new", page + "/edit"} {
			got := ada.do(http.MethodPost, target, c.form)
			got.has(t, http.StatusUnprocessableEntity, `id="mistake">`+c.says, "<details open>", `value="7"`,
				`<option value="month" selected>`, `<option selected>rates`, `name="addresses"`, c.form.Get("addresses")+"</textarea>",
				`value="90" checked`, `value="`+c.form.Get("name")+`"`)
			if n := strings.Count(got.body, `id="mistake"`); n != 1 {
				t.Errorf("%s: %d texts about the mistake", c.says, n)
			}
		}
	}
	for name, form := range map[string]url.Values{
		"period":    limitForm("", [3]string{"1", "year", "all"}),
		"rows":      limitForm("", slices.Repeat([][3]string{good}, 36)...),
		"fields":    {"name": {"ci"}, "ability": {"convert"}, "life": {"90"}, "limit": {"1"}},
		"unchanged": {"name": {"ci"}, "ability": {"convert"}, "life": {"unchanged"}},
	} {
		if got := ada.do(http.MethodPost, "/settings/keys/new", form); got.status != http.StatusBadRequest {
			t.Errorf("%s: got %d, want 400", name, got.status)
		}
	}
	if key := w.only(a.ID); key.Name != "old" || len(key.Limits)+len(key.Addresses) != 0 || key.ExpiresAt != nil {
		t.Errorf("the key is now %+v", key)
	}
}

// The form that changes a key changes what was typed, and nothing else.
func TestEditKey(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	a := w.add("ada@example.com", "business")
	key, err := w.gate.Client.CreateKey(t.Context(), a.ID, api.KeyRequest{
		Name: "old", Abilities: []string{"convert", "rates"}, TTL: "40d", Addresses: []string{"203.0.113.7"},
		Limits: []api.Limit{{Endpoint: "convert", Period: "day", Limit: 10}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ada := w.person().signIn("ada@example.com")
	page := "/settings/keys/" + key.ID
	ada.get(page+"/edit").has(t, http.StatusOK, "Edit old", `value="unchanged" checked`, `value="convert" checked`, `value="rates" checked`)

	form := limitForm("198.51.100.0/24", [3]string{"20", "month", "all"})
	form.Set("life", "unchanged")
	if got := ada.do(http.MethodPost, page+"/edit", form); got.location != page+"?done=changed" {
		t.Fatalf("got %d to %q: %s", got.status, got.location, got.body)
	}
	ada.get(page+"?done=changed").has(t, http.StatusOK, "The key is changed.", "All endpoints: 20 a month", "198.51.100.0/24")
	changed := w.only(a.ID)
	if changed.ID != key.ID || changed.Name != "ci" || !slices.Equal(changed.Abilities, []string{"convert"}) || !changed.ExpiresAt.Equal(*key.ExpiresAt) ||
		!slices.Equal(changed.Limits, []api.Limit{{Endpoint: "all", Period: "month", Limit: 20}}) || !slices.Equal(changed.Addresses, []string{"198.51.100.0/24"}) {
		t.Errorf("got %+v", changed)
	}

	form = limitForm("")
	form.Set("life", "7")
	ada.do(http.MethodPost, page+"/edit", form).has(t, http.StatusSeeOther)
	if changed = w.only(a.ID); len(changed.Limits)+len(changed.Addresses) != 0 || time.Until(*changed.ExpiresAt) > 7*24*time.Hour {
		t.Errorf("without limits: got %+v", changed)
	}
	form.Set("life", "0")
	ada.do(http.MethodPost, page+"/edit", form).has(t, http.StatusSeeOther)
	if changed = w.only(a.ID); changed.ExpiresAt != nil {
		t.Errorf("it expires at %s, want never", changed.ExpiresAt)
	}
	ada.get(page+"/edit").has(t, http.StatusOK, `value="0" checked`)

	if _, err := w.gate.Client.RotateKey(t.Context(), a.ID, key.ID, api.Rotation{Overlap: "1h"}); err != nil {
		t.Fatal(err)
	}
	ada.do(http.MethodPost, page+"/edit", form).has(t, http.StatusUnprocessableEntity, "Expiry", "Other date", "This key was rotated, and cannot expire later")
	log.wantNone(t)
}

// A key keeps abilities that its plan no longer has, until the person
// chooses others.
func TestEditKeyAfterDowngrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "business")
	page := w.issue(a.ID, "ci")
	ada := w.person().signIn("ada@example.com")
	for _, plan := range []string{"starter", "free"} {
		if err := w.accounts.Set(t.Context(), a.ID, api.AccountChange{Plan: new(plan)}); err != nil {
			t.Fatal(err)
		}
		got := ada.get(page + "/edit")
		got.has(t, http.StatusOK, "Save changes")
		if strings.Contains(got.body, `value="rates"`) {
			t.Errorf("plan %s: the form has the ability rates", plan)
		}
		form := limitForm("203.0.113.7")
		form.Set("life", "0")
		if plan == "free" {
			form.Del("ability") // there is none to choose
		}
		ada.do(http.MethodPost, page+"/edit", form).has(t, http.StatusSeeOther)
		if key := w.only(a.ID); !slices.Equal(key.Abilities, []string{"convert", "rates"}) || len(key.Addresses) != 1 {
			t.Errorf("plan %s: got %+v", plan, key)
		}
	}
}
