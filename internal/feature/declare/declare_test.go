package declare_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/declare"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

func key(name, text string, abilities ...string) declare.Key {
	hash := token.Foreign(text)
	return declare.Key{Name: name, SHA256: hex.EncodeToString(hash[:]), Abilities: abilities}
}

func acme(keys ...declare.Key) declare.Account {
	return declare.Account{ID: "acme", Plan: "starter", Label: "Acme", Keys: keys}
}

// apply applies a declaration of accounts as a gate does.
func apply(g *controltest.Gate, accounts ...declare.Account) error {
	d, err := declare.New(accounts, g.Policy())
	if err != nil {
		return err
	}
	opened, err := g.Book()
	if err != nil {
		return err
	}
	with := &admin.Session{Policy: g.Policy(), Book: opened, Now: g.Now()}
	if err := d.Check(context.Background(), with); err != nil {
		return err
	}
	return d.Apply(context.Background(), with, zap.NewNop())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// document returns the account acme.
func document(t *testing.T, g *controltest.Gate) *book.Account {
	t.Helper()
	a, err := g.Opened().Get(t.Context(), "acme")
	must(t, err)
	return a
}

// TestReadOnly calls each operation that changes something for a declared account
// and its declared key: those that could change what is declared are refused, and
// the others work.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	g.Handled = feature.Handler(g.Gate, nil)
	config := controltest.Config()
	config.ForeignKeys = true
	g.Configure(t, config)
	must(t, apply(g.Gate, acme(key("ci", "first"))))
	before := document(t, g.Gate)
	const account = "/tollgate/accounts/acme"
	declared := account + "/keys/" + before.Keys[0].ID
	type request struct{ method, target, body, code string }
	const refused = "declared"
	requests := map[string][]request{
		"put-account": {
			{"PUT", account, `{"plan":"business"}`, refused}, {"PUT", account, `{"label":"x"}`, refused}, {"PUT", account, `{"disabled":true}`, refused},
			{"PUT", account, `{"billing_day":7}`, refused}, {"PUT", account, `{"plan_until":"2127-01-01T00:00:00Z"}`, refused},
			{"PUT", account, `{"plan":"starter","label":"Acme"}`, ""}, {"PUT", "/tollgate/accounts/other", `{"plan":"starter"}`, ""},
		},
		"delete-account":     {{"DELETE", account, "", refused}},
		"change-key":         {{"PATCH", declared, `{"name":"x"}`, refused}, {"PATCH", declared, `{"limits":[{"endpoint":"convert","period":"day","limit":1}]}`, refused}, {"PATCH", declared, `{"ttl":"1h"}`, refused}},
		"revoke-key":         {{"DELETE", declared, "", refused}},
		"rotate-key":         {{"POST", declared + "/rotate", `{}`, refused}, {"POST", declared + "/rotate", `{"overlap":"1h"}`, refused}},
		"create-key":         {{"POST", account + "/keys", `{"name":"own"}`, ""}, {"POST", account + "/keys", `{"name":"ci"}`, "name_taken"}, {"POST", account + "/keys", `{"kind":"login"}`, ""}},
		"end-logins":         {{"DELETE", account + "/logins", "", ""}},
		"put-limit":          {{"PUT", account + "/limits/convert/day", `{"limit":5,"reason":"x"}`, ""}},
		"delete-limit":       {{"PUT", account + "/limits/batch/day", `{"limit":5,"reason":"x"}`, ""}, {"DELETE", account + "/limits/batch/day", "", ""}},
		"reset-usage":        {{"DELETE", account + "/usage", "", ""}},
		"credit-usage":       {{"POST", account + "/credits", `{"endpoint":"convert","calls":1,"reason":"x"}`, "nothing_to_credit"}},
		"top-up-usage":       {{"POST", account + "/topups", `{"endpoint":"convert","calls":1,"id":"x"}`, "no_total"}},
		"add-note":           {{"POST", account + "/audit", `{"action":"reset.create"}`, ""}},
		"create-portal-link": {{"POST", account + "/portal", `{}`, ""}},
		"import-accounts":    {{"POST", "/tollgate/accounts", `{"account":"acme","plan":"business"}`, refused}},
		"import-keys":        {{"POST", "/tollgate/keys", `{"account":"acme","sha256":"` + key("", "another").SHA256 + `"}`, ""}},
		"introspect":         nil, "take": nil, "settle-call": nil, "look-up-account": nil, "find-key": nil, // they change no account
	}
	for path, item := range controltest.DocumentOf(t, g.Handled).Paths.Map() {
		for method, operation := range item.Operations() {
			list, known := requests[operation.OperationID]
			if !known && method != http.MethodGet {
				t.Errorf("%s %s (%s) is not in this test", method, path, operation.OperationID)
			}
			delete(requests, operation.OperationID)
			for _, r := range list {
				w := send(g, r.method, r.target, r.body)
				if code := codeOf(w.Body.String()); code != r.code || code == "" && w.Code >= 400 || code == refused && strings.HasPrefix(path, account) && w.Code != http.StatusConflict {
					t.Errorf("%s: %s %s %s: got %d %s, want %q", operation.OperationID, r.method, r.target, r.body, w.Code, w.Body, r.code)
				}
			}
		}
	}
	for name := range requests {
		t.Errorf("there is no operation %s", name)
	}
	after := document(t, g.Gate)
	after.Overrides, before.Overrides = nil, nil
	if !reflect.DeepEqual(after.Account, before.Account) || !reflect.DeepEqual(after.Find(before.Keys[0].ID), before.Keys[0]) {
		t.Errorf("what is declared was changed: got %+v, want %+v", after, before)
	}
	for target, want := range map[string]string{account: `"declared":true`, declared[:strings.LastIndex(declared, "/")]: `"hint":"…"`, "/tollgate/accounts": `"declared":true`} {
		if body := g.Call(t, "GET", target, "").Body.String(); !strings.Contains(body, want) || strings.Count(body, `"declared":true`) != 1 {
			t.Errorf("%s: got %s", target, body)
		}
	}
	must(t, apply(g.Gate))
	g.Must(t, http.StatusOK, "PUT", account, `{"plan":"business"}`)
	g.Must(t, http.StatusNoContent, "DELETE", account, "")
}

func send(g *controltest.Checked, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if target == "/tollgate/accounts" || target == "/tollgate/keys" {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	w := httptest.NewRecorder()
	g.Handled.ServeHTTP(w, r)
	return w
}

// codeOf returns the code of an answer or of a line of one.
func codeOf(body string) string {
	var refused struct{ Code string }
	_ = json.Unmarshal([]byte(body), &refused) // no JSON has no code
	return refused.Code
}

// TestAudit: a load adds entries for what it changes, by the actor configuration.
func TestAudit(t *testing.T) {
	t.Parallel()
	g := controltest.New(t)
	load := func(want string, accounts ...declare.Account) {
		t.Helper()
		all := func() []store.Entry {
			list, err := g.Opened().ListEntries(t.Context(), book.EntryFilter{}, store.EntryID{}, 100)
			must(t, err)
			return list
		}
		n := len(all())
		must(t, apply(g, accounts...))
		got := ""
		for _, e := range all()[n:] {
			got += " " + e.Action
			if e.ActorKind != api.ActorAdmin || e.ActorID != "configuration" || e.Account != "acme" {
				t.Errorf("got %+v", e)
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("got entries %s, want %s", got, want)
		}
	}
	load("account.create key.create key.create", acme(key("a", "1"), key("b", "2")))
	load("", acme(key("b", "2"), key("a", "1")))
	load("key.set key.revoke", acme(key("a", "2")))
	changed := acme(key("a", "2", "convert"))
	changed.Disabled = true
	load("account.set key.set", changed)
	load("account.set key.set key.create", acme(key("a", "2"), key("b", "1")))
	load("account.set key.revoke key.revoke")
	load("account.set key.create", acme(key("a", "1")))
}

// TestAbilities: a key without abilities has those of the plan of the file, also
// after the plan has changed.
func TestAbilities(t *testing.T) {
	t.Parallel()
	g := controltest.New(t)
	for plan, want := range map[string][]string{"starter": {"convert", "currencies", "usage"}, "business": {"convert", "currencies"}, "free": nil} {
		a := acme(key("ci", "1"))
		a.Plan = plan
		for range 2 {
			must(t, apply(g, a))
			if got := document(t, g).Keys[0].Abilities; !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", plan, got, want)
			}
		}
	}
}

// TestOtherKeys: the names of the file win over those of keys that it does not
// have, and the number of these is no matter. Only a token can be taken.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	g := controltest.New(t)
	must(t, apply(g, acme(key("ci", "1"))))
	long := strings.Repeat("ü", 64)
	for i := range store.MaxLiveKeys - 1 {
		name := fmt.Sprint("own ", i)
		if i < 2 {
			name = []string{"next", long}[i]
		}
		own := store.Key{ID: fmt.Sprint("key_own", i), Account: "acme", Kind: token.Key, Name: name, CreatedAt: g.Now(), Hint: "tgk_…abcd", Abilities: []string{"convert"}}
		own.Limits = []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 1, OfKey: true}}
		must(t, g.Opened().CreateKey(t.Context(), own, token.Foreign(name)))
	}
	must(t, apply(g, acme(key("ci", "1"), key("next", "2"), key(long, "3"), key("mine", "own 7"))))
	a := document(t, g)
	names := map[string]bool{}
	for _, k := range a.Keys {
		if names[k.Name] || !k.Live(g.Now()) {
			t.Errorf("got %+v", k)
		}
		names[k.Name] = true
	}
	for id, want := range map[string]string{"key_own0": "next (key_own0)", "key_own1": long[:80] + " (key_own1)", "key_own3": "own 3"} {
		if k := a.Find(id); k.Name != want || k.Declared || len(k.Limits) != 1 {
			t.Errorf("got %+v, want %s", k, want)
		}
	}
	if k := a.Find("key_own7"); !k.Declared || k.Name != "mine" || k.Hint != "tgk_…abcd" || len(k.Abilities) != 3 || k.Limits != nil {
		t.Errorf("got %+v", k)
	}
	if len(a.Keys) != store.MaxLiveKeys+2 {
		t.Errorf("got %d keys", len(a.Keys))
	}
	entries, err := g.Opened().ListEntries(t.Context(), book.EntryFilter{Actors: []string{"configuration"}}, store.EntryID{}, 100)
	if err != nil || !slices.ContainsFunc(entries, func(e store.Entry) bool { return e.Target == "key_own0" && e.Action == api.KeySet }) {
		t.Errorf("got %+v, %v", entries, err)
	}
	const want = "account other key x of the configuration: the account acme has a live key or login with this token: revoke that first"
	before := document(t, g)
	if err := apply(g, acme(), declare.Account{ID: "other", Plan: "free", Keys: []declare.Key{key("x", "own 4")}}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if a := document(t, g); !reflect.DeepEqual(a, before) {
		t.Errorf("got %+v, want %+v", a, before)
	}
}

// TestTokenMoves: a token moves from one account to another within one load, also
// from an account that leaves the file, and to a new one. Accounts swap tokens.
func TestTokenMoves(t *testing.T) {
	t.Parallel()
	g := controltest.New(t)
	other := func(keys ...declare.Key) declare.Account {
		return declare.Account{ID: "a-other", Plan: "free", Keys: keys}
	}
	for _, accounts := range [][]declare.Account{
		{acme(key("ci", "1"))}, {acme(), other(key("ci", "1"))}, {acme(key("ci", "1"))}, {other(key("x", "2"))}, {acme(key("x", "2")), other(key("ci", "1"))},
		{acme(key("x", "1")), other(key("ci", "2"))},
	} {
		must(t, apply(g, accounts...))
		for _, a := range accounts {
			for _, k := range a.Keys {
				var hash token.Hash
				must(t, hash.UnmarshalText([]byte(k.SHA256)))
				if holder, err := g.Opened().Holder(t.Context(), hash, g.Now()); err != nil || holder != a.ID {
					t.Errorf("%s of %s is of %s, %v", k.Name, a.ID, holder, err)
				}
			}
		}
	}
}

// watched is an engine whose writes a test counts and interrupts.
type watched struct {
	book.Engine
	changed, committed int
	before             func() // the next commit
}

func (w *watched) Change(ctx context.Context, at time.Time, ids []string, edit func(int, *book.Account) error) []error {
	errs := w.Engine.Change(ctx, at, ids, edit)
	for _, err := range errs {
		if err == nil {
			w.changed++
		}
	}
	return errs
}

func (w *watched) Commit(ctx context.Context, batches ...book.Batch) []error {
	if batches[0].Name != "declared" { // but of the events
		return w.Engine.Commit(ctx, batches...)
	}
	w.committed++
	if before := w.before; before != nil {
		w.before = nil
		before()
	}
	return w.Engine.Commit(ctx, batches...)
}

// TestWrites: a load writes the accounts that differ. An account that something
// else has changed is repaired by the next load.
func TestWrites(t *testing.T) {
	t.Parallel()
	engine := &watched{Engine: memstore.New()}
	g := controltest.Over(t, engine)
	load := func(changed, committed int, accounts ...declare.Account) {
		t.Helper()
		engine.changed, engine.committed = 0, 0
		must(t, apply(g, accounts...))
		if engine.changed != changed || engine.committed != committed {
			t.Errorf("changed %d documents with %d commits, want %d and %d", engine.changed, engine.committed, changed, committed)
		}
	}
	var many []declare.Account
	for i := range 2*store.MaxBatch + 1 {
		many = append(many, declare.Account{ID: fmt.Sprint("acc_", i), Plan: "starter", Keys: []declare.Key{key("ci", fmt.Sprint(i))}})
	}
	load(2*len(many), 2, many...) // a new account in two steps
	load(0, 1, many...)
	many[7].Label = "seven"
	load(1, 2, many...)
	load(2, 2, many[2:]...)
	errs := g.Opened().Declare(t.Context(), g.Now(), []string{"acc_9"}, func(_ int, a *book.Account) error {
		a.Disabled = true
		return nil
	})
	must(t, errs[0])
	load(1, 1, many[2:]...)
	load(len(many)-2, 2)
	load(0, 1)
}

// TestTwoGates: a gate that another one interrupts begins again, so that the
// accounts are those of one file.
func TestTwoGates(t *testing.T) {
	t.Parallel()
	engine := &watched{Engine: memstore.New()}
	g := controltest.Over(t, engine)
	one, two := acme(key("ci", "1")), acme(key("ci", "2"))
	two.Plan = "business"
	engine.before = func() { // the mark at the begin of the first
		engine.before = func() { must(t, apply(g, two)) } // and the one at its end
	}
	for range 2 {
		must(t, apply(g, one))
		if a := document(t, g); a.Plan != one.Plan || !a.Holding(token.Foreign("1"), g.Now()).Live(g.Now()) || a.Holding(token.Foreign("2"), g.Now()).Live(g.Now()) {
			t.Errorf("got %+v", a)
		}
		engine.before = func() { must(t, apply(g, two)) } // while a file loads again that is in force
	}
	engine.before = nil
}

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// TestMistakesInJSON are those that no Caddyfile has before package declare sees
// them, and those of many keys.
func TestMistakesInJSON(t *testing.T) {
	t.Parallel()
	many := acme()
	for i := range store.MaxLiveKeys + 1 {
		many.Keys = append(many.Keys, key(fmt.Sprint("key ", i), fmt.Sprint(i)))
	}
	for want, accounts := range map[string][]declare.Account{
		"account acme: duplicate account":                                                 {acme(), acme()},
		"account acme: 101 keys: an account has at most 100":                              {many},
		"account acme: invalid label: use at most 200 characters, none of them invisible": {{ID: "acme", Plan: "free", Label: "a\nb"}},
	} {
		if _, err := declare.New(accounts, controltest.New(t).Policy()); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestNoStore: a load that cannot write fails, and the next one does the rest.
func TestNoStore(t *testing.T) {
	t.Parallel()
	engine := &controltest.Steps{Engine: memstore.New()}
	g := controltest.Over(t, engine)
	full := errors.New("the disk is full")
	for n := range 4 { // one call of Check, and two of Apply
		calls := 0
		engine.Before = func(context.Context, []string) error {
			if calls++; calls > n {
				return full
			}
			return nil
		}
		if err := apply(g, acme(key("ci", "1"))); (n < 3) != errors.Is(err, full) {
			t.Errorf("after %d changes: got %v", n, err)
		}
	}
	engine.Before = nil
	must(t, apply(g, acme(key("ci", "1"))))
	if a := document(t, g); len(a.Keys) != 1 || !a.Declared {
		t.Errorf("got %+v", a)
	}
}
