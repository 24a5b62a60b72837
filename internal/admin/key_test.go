package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

const keysPath = "/tollgate/accounts/acc_1/keys"

func (g *gate) names(t *testing.T, query string) (names []string) {
	t.Helper()
	for _, key := range g.Must(t, http.StatusOK, "GET", keysPath+query, "")["keys"].([]any) {
		names = append(names, key.(map[string]any)["name"].(string))
	}
	slices.Sort(names) // keys of the same instant have no order
	return names
}

func TestCreateKey(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	got := g.Must(t, http.StatusCreated, "POST", keysPath, `{"name":"ci"}`)
	secret, id, hint := got["token"].(string), got["id"].(string), got["hint"].(string)
	if !regexp.MustCompile(`^tgk_[0-9A-Za-z]{49}$`).MatchString(secret) {
		t.Errorf("token: got %q", secret)
	}
	if want := "tgk_…" + secret[len(secret)-4:]; hint != want {
		t.Errorf("hint: got %q, want %q", hint, want)
	}
	want := map[string]any{
		"id": id, "account": "acc_1", "kind": "key", "name": "ci", "abilities": []any{"convert", "currencies", "usage"}, "hint": hint,
		"created_at": "2126-11-20T09:00:00Z", "expires_at": nil, "revoked_at": nil, "last_used_at": nil, "last_used_from": nil,
		"limits": []any{}, "addresses": []any{}, "token": secret,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	delete(want, "token")
	list := g.Call(t, "GET", keysPath, "").Body.String()
	var listed struct{ Keys []map[string]any }
	if err := json.Unmarshal([]byte(list), &listed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]map[string]any{want}, listed.Keys); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if strings.Contains(list, secret) || strings.Contains(g.Log(), secret) {
		t.Error("the secret is shown again")
	}
	grant, ok := g.Opens(t, secret)
	if !ok || grant.Account != "acc_1" || grant.Key != id || grant.KeyName != "ci" || grant.Abilities != "convert currencies usage" {
		t.Errorf("the token opens %v %+v", ok, grant)
	}
}

func TestKeyRequests(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	g.Issue(t, `{"name":"taken"}`)
	for _, test := range []struct {
		name, body string
		status     int
		code       string // of the refusal
		expires    string
	}{
		{"longest name", `{"name":"` + strings.Repeat("é", 64) + `"}`, 201, "", ""},
		{"too long a name", `{"name":"` + strings.Repeat("é", 65) + `"}`, 400, "invalid_name", ""},
		{"no name", `{}`, 400, "invalid_name", ""},
		{"empty name", `{"name":""}`, 400, "invalid_name", ""},
		{"a name that cannot be seen", `{"name":"\u200b\u00ad "}`, 400, "invalid_name", ""},
		{"a name of a filler", `{"name":"\u3164"}`, 400, "invalid_name", ""},
		{"a name like another", `{"name":"taken\u200b"}`, 400, "invalid_name", ""},
		{"a composed name", `{"name":"caf\u00e9"}`, 201, "", ""},
		{"the same name decomposed", `{"name":"cafe\u0301"}`, 409, "name_taken", ""},
		{"a joined emoji", `{"name":"\ud83d\udc69\u200d\ud83d\ude80"}`, 201, "", ""},
		{"a name that turns the text around", `{"name":"ci \u202eevil"}`, 400, "invalid_name", ""},
		{"empty ttl", `{"name":"ci","ttl":""}`, 400, "invalid_request", ""},
		{"emoji in the name", `{"name":"🚀 rocket"}`, 201, "", ""},
		{"name taken", `{"name":"taken"}`, 409, "name_taken", ""},
		{"name in another case", `{"name":"Taken"}`, 201, "", ""},
		{"some abilities", `{"name":"a1","abilities":["usage","convert","usage"]}`, 201, "", ""},
		{"no abilities", `{"name":"a3","abilities":[]}`, 400, "invalid_request", ""},
		{"unknown ability", `{"name":"a4","abilities":["convert","admin"]}`, 403, "not_entitled", ""},
		{"endpoint that is in a group", `{"name":"a5","abilities":["batch"]}`, 403, "not_entitled", ""},
		{"ttl in days", `{"name":"t2","ttl":"30d"}`, 201, "", "2126-12-20T09:00:00Z"},
		{"ttl in days and hours", `{"name":"t3","ttl":"1d12h"}`, 201, "", "2126-11-21T21:00:00Z"},
		{"longest ttl", `{"name":"t4","ttl":"36500d"}`, 201, "", "2226-10-27T09:00:00Z"},
		{"too long a ttl", `{"name":"t5","ttl":"36501d"}`, 400, "invalid_expiry", ""},
		{"ttl zero", `{"name":"t7","ttl":"0s"}`, 400, "invalid_expiry", ""},
		{"negative ttl", `{"name":"t8","ttl":"-1h"}`, 400, "invalid_expiry", ""},
		{"expiry", `{"name":"e1","expires_at":"2127-01-01T00:00:00+01:00"}`, 201, "", "2126-12-31T23:00:00Z"},
		{"expiry now", `{"name":"e3","expires_at":"2126-11-20T09:00:00Z"}`, 400, "invalid_expiry", ""},
		{"expiry in the past", `{"name":"e4","expires_at":"2020-01-01T00:00:00Z"}`, 400, "invalid_expiry", ""},
		{"expiry beyond four digits", `{"name":"e5","expires_at":"9999-12-31T23:59:59-12:00"}`, 400, "invalid_expiry", ""},
		{"both expiries", `{"name":"e7","expires_at":"2127-01-01T00:00:00Z","ttl":"1h"}`, 400, "invalid_expiry", ""},
		{"unknown member", `{"name":"k2","token":"tgk_x"}`, 400, "invalid_request", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.status != http.StatusCreated {
				before := g.names(t, "?include=revoked")
				g.Refused(t, test.status, test.code, "POST", keysPath, test.body)
				if diff := cmp.Diff(before, g.names(t, "?include=revoked")); diff != "" {
					t.Errorf("the refused call made a key:\n%s", diff)
				}
				return
			}
			got := g.Must(t, test.status, "POST", keysPath, test.body)
			if expires, _ := got["expires_at"].(string); expires != test.expires {
				t.Errorf("expires_at: got %v, want %q", got["expires_at"], test.expires)
			}
			if test.name == "some abilities" {
				if diff := cmp.Diff([]any{"convert", "usage"}, got["abilities"]); diff != "" {
					t.Errorf("abilities (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestLoginToken(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	key := g.Issue(t, `{"kind":"login"}`)
	if !strings.HasPrefix(key.Token, "tgl_") || key.Kind != "login" || key.Name != "login" {
		t.Errorf("got %+v", key)
	}
	if got := key.ExpiresAt.Sub(key.CreatedAt); got != 24*time.Hour {
		t.Errorf("it lives %v", got)
	}
	g.Issue(t, `{"kind":"login"}`) // of the same name
	named := g.Issue(t, `{"kind":"login","name":"phone","ttl":"1h"}`)
	g.Issue(t, `{"kind":"key","name":"ci"}`)
	if diff := cmp.Diff([]string{"ci"}, g.names(t, "")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"login", "login", "phone"}, g.names(t, "?kind=login")); diff != "" {
		t.Errorf("login tokens (-want +got):\n%s", diff)
	}
	g.Advance(time.Hour)
	if _, ok := g.Opens(t, named.Token); ok {
		t.Error("an expired login token still opens")
	}
	if diff := cmp.Diff([]string{"login", "login"}, g.names(t, "?kind=login&include=revoked")); diff != "" {
		t.Errorf("login tokens that have not ended (-want +got):\n%s", diff)
	}
	if next := g.Must(t, http.StatusCreated, "POST", keysPath+"/"+key.ID+"/rotate", ""); next["kind"] != "login" || !strings.HasPrefix(next["token"].(string), "tgl_") {
		t.Errorf("rotated: got %v", next)
	}
	if _, ok := g.Opens(t, key.Token); ok {
		t.Error("a login token that was rotated still opens")
	}
	config := controltest.Config()
	config.LoginTTL = policy.Duration(time.Hour)
	g.Configure(t, config)
	key = g.Issue(t, `{"kind":"login"}`)
	if got := key.ExpiresAt.Sub(key.CreatedAt); got != time.Hour {
		t.Errorf("after a reload it lives %v", got)
	}
}

// TestTokenPrefix: a token begins with the word of the account's plan at that time.
// Older ones go on to work.
func TestTokenPrefix(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	old := g.Issue(t, `{"name":"old"}`)
	config := controltest.Config()
	config.TokenPrefix = "acme_live"
	for i := range config.Plans {
		if config.Plans[i].Name == "business" {
			config.Plans[i].TokenPrefix = "acme_test"
		}
	}
	g.Configure(t, config)
	made := map[string]api.IssuedKey{"tgk_": old}
	for plan, word := range map[string]string{"starter": "acme_live", "business": "acme_test"} {
		g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"plan":"`+plan+`"}`)
		made[word+"_"], made[word+"_login_"] = g.Issue(t, `{"name":"`+word+`"}`), g.Issue(t, `{"kind":"login"}`)
		rotated := g.Must(t, http.StatusCreated, "POST", keysPath+"/"+g.Issue(t, `{"name":"rotated `+word+`"}`).ID+"/rotate", "")
		if text := rotated["token"].(string); !strings.HasPrefix(text, word+"_") || rotated["hint"] != word+"_…"+text[len(text)-4:] {
			t.Errorf("rotated on the plan %s: got %v", plan, rotated)
		}
	}
	for prefix, key := range made {
		if !regexp.MustCompile("^"+prefix+`[0-9A-Za-z]{49}$`).MatchString(key.Token) || key.Hint != prefix+"…"+key.Token[len(key.Token)-4:] {
			t.Errorf("%s: got the token %s with the hint %s", prefix, key.Token, key.Hint)
		}
		if grant, ok := g.Opens(t, key.Token); !ok || grant.Key != key.ID {
			t.Errorf("%s: it opens %v %+v", prefix, ok, grant)
		}
		if strings.Contains(g.Log(), key.Token[len(prefix):]) {
			t.Errorf("%s: the log has the token", prefix)
		}
	}
	if next := g.Must(t, http.StatusCreated, "POST", keysPath+"/"+old.ID+"/rotate", ""); !strings.HasPrefix(next["token"].(string), "acme_") {
		t.Errorf("rotated: got %v, want the present word", next)
	}
}

func TestNoTokenWithoutAccess(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "free")
	for _, body := range []string{`{"name":"ci"}`, `{"kind":"login"}`, `{"name":"ci","abilities":["convert"]}`} {
		g.Refused(t, http.StatusForbidden, "plan_required", "POST", keysPath, body)
	}

	g.Account(t, "acc_1", "starter")
	key := g.Issue(t, `{"name":"ci"}`)
	g.Account(t, "acc_1", "free")
	g.Refused(t, http.StatusForbidden, "plan_required", "POST", keysPath+"/"+key.ID+"/rotate", "")
	if _, ok := g.Opens(t, key.Token); !ok {
		t.Error("the refused rotation ended the key")
	}
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"plan":"starter","disabled":true}`)
	for _, body := range []string{`{"name":"ci2"}`, `{"kind":"login"}`} {
		g.Refused(t, http.StatusForbidden, "account_disabled", "POST", keysPath, body)
	}
	if diff := cmp.Diff([]string{"ci"}, g.names(t, "?include=revoked")); diff != "" {
		t.Errorf("a refused call made a key:\n%s", diff)
	}
}

// An account with as many keys as it may have gets no more, and a rotation needs
// no room.
func TestTooManyKeys(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	keys := make([]store.StoredKey, store.MaxLiveKeys)
	for i := range keys {
		name := fmt.Sprintf("key_%016d", i)
		keys[i] = store.StoredKey{Key: store.Key{ID: name, Account: "acc_1", Kind: token.Key, Name: name, CreatedAt: g.Now()}, Hash: token.Foreign(name)}
	}
	if err := errors.Join(g.Opened().ImportKeys(t.Context(), g.Now(), keys, func(*book.Account, *book.Key) {})...); err != nil {
		t.Fatal(err)
	}
	g.Refused(t, http.StatusConflict, "too_many_keys", "POST", keysPath, `{"name":"one more"}`)
	g.Refused(t, http.StatusConflict, "too_many_keys", "POST", keysPath+"/"+keys[0].ID+"/rotate", `{"overlap":"1h"}`)
	g.Must(t, http.StatusCreated, "POST", keysPath+"/"+keys[0].ID+"/rotate", "")
	g.Issue(t, `{"kind":"login"}`) // does not count
}

func TestRevokeKey(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	g.Account(t, "acc_2", "starter")
	key := g.Issue(t, `{"name":"ci"}`)
	g.Refused(t, http.StatusNotFound, "not_found", "DELETE", "/tollgate/accounts/acc_2/keys/"+key.ID, "")
	g.Refused(t, http.StatusNotFound, "not_found", "DELETE", "/tollgate/accounts/stranger/keys/"+key.ID, "")
	g.Refused(t, http.StatusNotFound, "not_found", "DELETE", keysPath+"/key_unknown", "")
	g.Refused(t, http.StatusNotFound, "not_found", "POST", "/tollgate/accounts/acc_2/keys/"+key.ID+"/rotate", "")
	if _, ok := g.Opens(t, key.Token); !ok {
		t.Fatal("a refused call ended the key")
	}
	for range 2 {
		g.Must(t, http.StatusNoContent, "DELETE", keysPath+"/"+key.ID, "")
		if _, ok := g.Opens(t, key.Token); ok {
			t.Fatal("the key opens after it was revoked")
		}
		g.Advance(time.Hour)
	}
	if names := g.names(t, ""); len(names) != 0 {
		t.Errorf("keys that were not revoked: %q", names)
	}
	revoked := g.Must(t, http.StatusOK, "GET", keysPath+"?include=revoked", "")["keys"].([]any)[0].(map[string]any)
	if got := revoked["revoked_at"]; got != "2126-11-20T09:00:00Z" {
		t.Errorf("revoked_at: got %v", got)
	}
	g.Refused(t, http.StatusNotFound, "not_found", "POST", keysPath+"/"+key.ID+"/rotate", "")
	g.Issue(t, `{"name":"ci"}`) // the name is free again
	g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", keysPath+"?include=all", "")
	g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", keysPath+"?kind=admin", "")
	g.Refused(t, http.StatusNotFound, "not_found", "GET", "/tollgate/accounts/stranger/keys", "")
}
