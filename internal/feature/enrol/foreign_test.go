package enrol_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// importingKeys returns a client of a gate that accepts imported keys.
func importingKeys(t *testing.T) (*controltest.Gate, *client.Client) {
	t.Helper()
	g := controltest.New(t)
	g.AcceptForeign(t)
	return g, client.InProcess(feature.Handler(g, slog.New(slog.NewTextHandler(g, nil))))
}

// outcomes are the statuses and codes of results.
func outcomes(results []api.LineResult) (list []string) {
	for _, r := range results {
		list = append(list, strings.TrimSpace(fmt.Sprint(r.Status, " ", r.Code)))
	}
	return list
}

// TestImportKeys imports lines of all kinds, first in a dry run. Both have the
// same results, and only the second one changes something.
func TestImportKeys(t *testing.T) {
	t.Parallel()
	g, c := importingKeys(t)
	ctx := t.Context()
	for _, account := range []struct{ id, plan string }{{"acc_1", "starter"}, {"acc_2", "business"}, {"acc_poor", "free"}, {"acc_off", "starter"}} {
		if _, err := c.PutAccount(ctx, account.id, api.AccountChange{Plan: &account.plan, Disabled: new(account.id == "acc_off")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "taken"}); err != nil {
		t.Fatal(err)
	}
	lines := []struct{ line, want string }{
		{controltest.KeyLine("acc_1", controltest.ForeignToken(1), ""), "201"},
		{controltest.KeyLine("acc_1", controltest.ForeignToken(1), ""), "200"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(1), ""), "409 token_taken"},
		{controltest.KeyLine("acc_1", controltest.ForeignToken(1), `,"prefix":"12"`), "201"}, // another token
		{controltest.KeyLine("acc_1", controltest.ForeignToken(2), `,"name":"from Kong","abilities":["convert"],"expires_at":"2127-01-01T00:00:00Z"`), "201"},
		{controltest.KeyLine("acc_1", controltest.ForeignToken(3), `,"name":"taken"`), "409 name_taken"},
		{controltest.KeyLine("acc_1", controltest.ForeignToken(3), `,"plan":"business"`), "201"}, // it keeps its plan
		{controltest.KeyLine("acc_new", controltest.ForeignToken(4), `,"plan":"starter"`), "201"},
		{controltest.KeyLine("acc_new", controltest.ForeignToken(5), ""), "201"}, // exists now
		{controltest.KeyLine("acc_none", controltest.ForeignToken(6), ""), "404 unknown_account"},
		{controltest.KeyLine("acc_none", controltest.ForeignToken(6), `,"plan":"gold"`), "400 unknown_plan"},
		{controltest.KeyLine("acc_none", controltest.ForeignToken(6), `,"plan":"free"`), "403 plan_required"},
		{controltest.KeyLine("acc_poor", controltest.ForeignToken(6), `,"plan":"starter"`), "403 plan_required"},
		{controltest.KeyLine("acc_off", controltest.ForeignToken(6), ""), "403 account_disabled"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(6), `,"abilities":["usage"]`), "403 not_entitled"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(6), `,"abilities":["nonsense"]`), "403 not_entitled"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(6), `,"abilities":[]`), "400 invalid_request"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(6), `,"expires_at":"2026-01-01T00:00:00Z"`), "400 invalid_expiry"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(6), `,"name":"\u202e"`), "400 invalid_name"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(6), `,"prefix":"1|2"`), "400 invalid_request"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(6), `,"prefix":"`+strings.Repeat("1", api.MaxPrefix+1)+`"`), "400 invalid_request"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(6), `,"token":"`+controltest.ForeignToken(6)+`"`), "400 invalid_request"},
		{controltest.KeyLine("..", controltest.ForeignToken(6), ""), "400 invalid_account"},
		{`{"account":"acc_2","sha256":"` + strings.Repeat("0", 63) + `"}`, "400 invalid_request"},
		{`{"account":"acc_2","sha256":"` + strings.Repeat("0", 65) + `"}`, "400 invalid_request"},
		{`{"account":"acc_2","sha256":"` + strings.Repeat("x", 64) + `"}`, "400 invalid_request"},
		{`{"account":"acc_2","sha256":"` + strings.Repeat("0", 64) + `"}`, "400 invalid_request"},
		{controltest.KeyLine("acc_2", "", ""), "400 invalid_request"}, // the variable with the token was empty
		{`{"account":"acc_2"}`, "400 invalid_request"},
		{`nonsense`, "400 invalid_request"},
		{controltest.KeyLine("acc_2", controltest.ForeignToken(7), `,"plan":null,"abilities":null,"expires_at":null`), "201"},
	}
	var body, want []string
	for _, line := range lines {
		body, want = append(body, line.line), append(want, line.want)
	}
	before := len(g.Published())
	if diff := cmp.Diff(want, outcomes(controltest.KeyResults(t, c, true, body...))); diff != "" {
		t.Errorf("a dry run (-want +got):\n%s", diff)
	}
	if _, err := c.Account(ctx, "acc_new"); !errors.Is(err, api.ErrNotFound) || len(g.Published()) != before {
		t.Errorf("the dry run changed something: %v", err)
	}
	if diff := cmp.Diff(want, outcomes(controltest.KeyResults(t, c, false, body...))); diff != "" {
		t.Errorf("an import (-want +got):\n%s", diff)
	}
	var events []string
	for _, e := range g.Published()[before:] {
		name, _ := e.Data["name"].(string)
		events = append(events, fmt.Sprint(strings.TrimPrefix(e.Type, "tollgate."), " ", e.Data["account"], " ", name))
	}
	slices.Sort(events)
	if diff := cmp.Diff([]string{
		"account_changed acc_new ", "key_created acc_1 from Kong", "key_created acc_1 imported", "key_created acc_1 imported 2", "key_created acc_1 imported 3",
		"key_created acc_2 imported", "key_created acc_new imported", "key_created acc_new imported 2",
	}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, account := range []struct{ id, plan string }{{"acc_1", "starter"}, {"acc_new", "starter"}} {
		if got, err := c.Account(ctx, account.id); err != nil || got.Plan != account.plan {
			t.Errorf("%s: got %+v, %v", account.id, got, err)
		}
	}
	keys, err := c.Keys(ctx, "acc_1", client.KeyFilter{})
	i := slices.IndexFunc(keys, func(k api.Key) bool { return k.Name == "from Kong" })
	if err != nil || i < 0 {
		t.Fatalf("got %+v, %v", keys, err)
	}
	key := keys[i]
	wanted := api.Key{
		ID: token.IDOf("acc_1", token.Foreign(controltest.ForeignToken(2))), Account: "acc_1", Kind: "key", Name: "from Kong", Abilities: []string{"convert"}, Hint: "…",
		CreatedAt: controltest.Start, ExpiresAt: new(time.Date(2127, 1, 1, 0, 0, 0, 0, time.UTC)), Limits: []api.Limit{}, Addresses: []string{},
	}
	if diff := cmp.Diff(wanted, key); diff != "" {
		t.Errorf("the key (-want +got):\n%s", diff)
	}
	for _, hash := range []token.Hash{token.Foreign(controltest.ForeignToken(1)), token.Prefixed("12", token.Foreign(controltest.ForeignToken(1)))} {
		if grant, err := g.Opened().Grant(ctx, hash, g.Now()); err != nil || grant.Account != "acc_1" {
			t.Errorf("got %+v, %v", grant, err)
		}
	}
}

// TestImportKeysAgain: the second import skips all keys, also expired and
// revoked ones, which stay so.
func TestImportKeysAgain(t *testing.T) {
	t.Parallel()
	g, c := importingKeys(t)
	lines := []string{
		controltest.KeyLine("acc_1", controltest.ForeignToken(1), `,"plan":"starter","expires_at":"2126-11-20T10:00:00Z"`),
		controltest.KeyLine("acc_1", controltest.ForeignToken(2), ""), controltest.KeyLine("acc_1", controltest.ForeignToken(3), ""),
	}
	if got, want := outcomes(controltest.KeyResults(t, c, false, lines...)), []string{"201", "201", "201"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	revoked := token.Foreign(controltest.ForeignToken(2))
	if err := c.RevokeKey(t.Context(), "acc_1", token.IDOf("acc_1", revoked)); err != nil {
		t.Fatal(err)
	}
	g.Advance(2 * time.Hour)
	audit := func() int {
		page, err := c.Audit(t.Context(), api.AuditQuery{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Audit)
	}
	before := audit()
	lines[0] = controltest.KeyLine("acc_1", controltest.ForeignToken(1), "") // its expiry is over
	if got, want := outcomes(controltest.KeyResults(t, c, false, lines...)), []string{"200", "200", "200"}; !slices.Equal(got, want) {
		t.Errorf("again: got %v, want %v", got, want)
	}
	if after := audit(); after != before {
		t.Errorf("got %d entries, want %d", after, before)
	}
	for n, want := range map[int]error{1: store.ErrNoGrant, 2: store.ErrNoGrant, 3: nil} {
		if _, err := g.Opened().Grant(t.Context(), token.Foreign(controltest.ForeignToken(n)), g.Now()); !errors.Is(err, want) {
			t.Errorf("key %d: got %v, want %v", n, err, want)
		}
	}
}

// TestImportKeysMeanwhile: while an import works, another request creates what
// it is about to create. The account keeps its plan, and the key is skipped.
func TestImportKeysMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step   int // before which the other import works: 1 creates the account, 2 the key
		line   string
		want   string
		events int
		plan   string
	}{
		"account": {1, controltest.KeyLine("acc_1", controltest.ForeignToken(2), `,"plan":"business"`), "201", 3, "business"},
		"key":     {2, controltest.KeyLine("acc_1", controltest.ForeignToken(1), `,"plan":"business"`), "200", 2, "starter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, step := new(controltest.Steps), 0
			g := controltest.CheckedOver(t, s)
			g.AcceptForeign(t)
			other := client.InProcess(g.InProcess())
			s.Before = func(context.Context, []string) error {
				if step++; step == c.step {
					controltest.KeyResults(t, other, false, c.line)
				}
				return nil
			}
			got := outcomes(controltest.KeyResults(t, other, false, controltest.KeyLine("acc_1", controltest.ForeignToken(1), `,"plan":"starter","name":"mine"`)))
			if !slices.Equal(got, []string{c.want}) || len(g.Published()) != c.events {
				t.Errorf("got %v and %d events, want %s and %d", got, len(g.Published()), c.want, c.events)
			}
			if account, err := g.Opened().Account(t.Context(), "acc_1"); err != nil || account.Plan != c.plan {
				t.Errorf("got %+v, %v, want plan %s", account, err, c.plan)
			}
		})
	}
}

// TestImportKeysDryRunOfBatches: a dry run has more lines than one batch, and its
// results are those of the import.
func TestImportKeysDryRunOfBatches(t *testing.T) {
	t.Parallel()
	_, c := importingKeys(t)
	lines := []string{controltest.KeyLine("acc_new", controltest.ForeignToken(0), `,"plan":"starter","name":"same"`)}
	for n := range store.MaxBatch {
		lines = append(lines, controltest.KeyLine(fmt.Sprint("acc_", n), controltest.ForeignToken(n+1), `,"plan":"starter"`))
	}
	lines = append(lines,
		controltest.KeyLine("acc_new", controltest.ForeignToken(len(lines)), ""),
		controltest.KeyLine("acc_new", controltest.ForeignToken(len(lines)+1), `,"name":"same"`))
	dry, real := outcomes(controltest.KeyResults(t, c, true, lines...)), outcomes(controltest.KeyResults(t, c, false, lines...))
	if !slices.Equal(dry, real) || real[len(real)-2] != "201" || real[len(real)-1] != "409 name_taken" {
		t.Errorf("a dry run: %v, the import: %v", dry[len(dry)-3:], real[len(real)-3:])
	}
}
