package enrol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// importing returns a client of a gate whose batches are counted.
func importing(t *testing.T) (g *controltest.Checked, c *client.Client, batches *[]int) {
	t.Helper()
	batches = new([]int)
	g = controltest.CheckedOver(t, &controltest.Steps{Before: func(_ context.Context, ids []string) error {
		*batches = append(*batches, len(ids))
		return nil
	}})
	server := httptest.NewServer(g.InProcess())
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	return g, c, batches
}

func results(t *testing.T, c *client.Client, body string) (list []api.LineResult) {
	t.Helper()
	err := c.ImportAccounts(client.WithActor(t.Context(), "acc_person"), strings.NewReader(body), func(r api.LineResult) error {
		list = append(list, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestImportMany imports thousands of accounts in few batches.
func TestImportMany(t *testing.T) {
	t.Parallel()
	const lines = 2 * store.MaxBatch
	g, c, batches := importing(t)
	made := 0
	for _, round := range []struct {
		name, plan string
		status     int
		changes    bool
	}{{"new", "free", http.StatusCreated, true}, {"changed", "starter", http.StatusOK, true}, {"the same", "starter", http.StatusOK, false}} {
		*batches = nil
		var body strings.Builder
		for i := range lines {
			fmt.Fprintf(&body, `{"account":"acc_%05d","plan":%q,"label":"Customer %d"}`+"\n", i, round.plan, i)
		}
		got := results(t, c, body.String())
		if len(got) != lines {
			t.Fatalf("got %d results, want %d", len(got), lines)
		}
		for i, r := range got {
			if want := (api.LineResult{Line: i + 1, Account: fmt.Sprintf("acc_%05d", i), Status: round.status}); r != want {
				t.Fatalf("got %+v, want %+v", r, want)
			}
		}
		if round.changes {
			made += lines
		}
		if want := slices.Repeat([]int{store.MaxBatch}, lines/store.MaxBatch); !slices.Equal(*batches, want) {
			t.Errorf("%s: got batches %v, want %v", round.name, *batches, want)
		}
		if entries, events := g.Entries(t), len(g.Published()); entries != made || events != made {
			t.Errorf("%s: got %d entries and %d events, want %d", round.name, entries, events, made)
		}
	}
	account, err := c.Account(t.Context(), "acc_00321")
	if want := (api.Account{Account: "acc_00321", Plan: "starter", Label: "Customer 321", CreatedAt: controltest.Start}); err != nil || account != want {
		t.Errorf("got %+v, %v, want %+v", account, err, want)
	}
}

// TestImportLines imports lines with mistakes: each is refused alone.
func TestImportLines(t *testing.T) {
	t.Parallel()
	_, c, batches := importing(t)
	long := `{"account":"acc_1","label":"` + strings.Repeat("x", 17<<10) + `"}`
	lines := []struct {
		text   string
		want   api.LineResult
		detail string // a part of the message
	}{
		{`{"account":"acc_1","plan":"starter","label":"first"}`, api.LineResult{Account: "acc_1", Status: 201}, ""},
		{`{"account":"acc_2"}`, api.LineResult{Account: "acc_2", Status: 201}, ""},
		{`{"account":"acc_1","label":"second"}`, api.LineResult{Account: "acc_1", Status: 200}, ""},
		{``, api.LineResult{Status: 400, Code: "invalid_request"}, "the line is not valid JSON"},
		{` {"account":"acc_3", "plan":null, "disabled":true} ` + "\r", api.LineResult{Account: "acc_3", Status: 201}, ""},
		{`{"account":"acc_4","name":"x"}`, api.LineResult{Status: 400, Code: "invalid_request"}, `unknown member "name"; allowed: account, plan, disabled, label`},
		{`{"account":"acc_4","Plan":"starter"}`, api.LineResult{Status: 400, Code: "invalid_request"}, `unknown member "Plan"`},
		{`{"account":"acc_4","account":"acc_5"}`, api.LineResult{Status: 400, Code: "invalid_request"}, `duplicate member "account"`},
		{`{"account":"acc_4"}{}`, api.LineResult{Status: 400, Code: "invalid_request"}, "not valid JSON"},
		{`{"account":4}`, api.LineResult{Status: 400, Code: "invalid_request"}, `"/account" must be a string`},
		{`["acc_4"]`, api.LineResult{Status: 400, Code: "invalid_request"}, "must be an object"},
		{`{"account":"acc_4","plan":"gold"}`, api.LineResult{Account: "acc_4", Status: 400, Code: "unknown_plan"}, "gold"},
		{`{"account":"acc_4","label":"a\u202eb"}`, api.LineResult{Account: "acc_4", Status: 400, Code: "invalid_label"}, ""},
		{`{"account":"..","plan":"starter"}`, api.LineResult{Account: "..", Status: 400, Code: "invalid_account"}, ""},
		{`{"plan":"starter"}`, api.LineResult{Status: 400, Code: "invalid_account"}, ""},
		{"{\"account\":\"acc_4\",\"label\":\"\xff\"}", api.LineResult{Status: 400, Code: "invalid_request"}, "not valid JSON"},
		{long, api.LineResult{Status: 413, Code: "body_too_large"}, ""},
		{`{"account":"acc_1","label":"third"}`, api.LineResult{Account: "acc_1", Status: 200}, ""},
		{`{"account":"acc_6"}`, api.LineResult{Account: "acc_6", Status: 201}, ""}, // without a newline
	}
	var body []string
	for _, line := range lines {
		body = append(body, line.text)
	}
	got := results(t, c, strings.Join(body, "\n"))
	if len(got) != len(lines) {
		t.Fatalf("got %d results, want %d: %+v", len(got), len(lines), got)
	}
	for i, line := range lines {
		message := got[i].Message
		if line.want.Line, got[i].Message = i+1, ""; got[i] != line.want || !strings.Contains(message, line.detail) || (message == "") != (line.want.Code == "") {
			t.Errorf("%.60s: got %+v with the message %q, want %+v", line.text, got[i], message, line.want)
		}
	}
	// A batch ends where an account comes again.
	if want := []int{2, 2, 2}; !slices.Equal(*batches, want) {
		t.Errorf("got batches %v, want %v", *batches, want)
	}
	page, err := c.Accounts(t.Context(), api.AccountQuery{})
	var have []string
	for _, a := range page.Accounts {
		have = append(have, fmt.Sprint(a.Account, " ", a.Plan, " ", a.Label, " ", a.Disabled))
	}
	if diff := cmp.Diff([]string{"acc_1 starter third false", "acc_2 free  false", "acc_3 free  true", "acc_6 free  false"}, have); diff != "" || err != nil {
		t.Errorf("accounts (-want +got): %v\n%s", err, diff)
	}
	if got := results(t, c, ""); len(got) != 0 {
		t.Errorf("an empty body: got %+v", got)
	}
}

// TestImportTooMany: the line after the last one that is allowed is refused,
// and those after it are not read.
func TestImportTooMany(t *testing.T) {
	t.Parallel()
	_, c, _ := importing(t)
	got := results(t, c, strings.Repeat("x\n", api.MaxImport+2))
	last := got[len(got)-1]
	if len(got) != api.MaxImport+1 || last.Line != api.MaxImport+1 || last.Status != http.StatusRequestEntityTooLarge || last.Code != "too_many_lines" {
		t.Errorf("got %d results, the last one %+v", len(got), last)
	}
}

// TestImportRefused: a request that is refused as a whole changes nothing.
func TestImportRefused(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	for name, c := range map[string]struct {
		target, media, accept string
		down                  error
		status                int
		code                  string
	}{
		"JSON lines":        {"", "application/jsonl", "application/jsonl", nil, 200, ""},
		"the other name":    {"", "Application/X-NDJSON; charset=utf-8", "*/*", nil, 200, ""},
		"JSON":              {"", "application/json", "", nil, 415, "unsupported_media_type"},
		"no media type":     {"", "", "", nil, 415, "unsupported_media_type"},
		"another charset":   {"", "application/jsonl; charset=utf-16", "", nil, 415, "unsupported_media_type"},
		"excluded":          {"", "application/jsonl", "application/json", nil, 406, "not_acceptable"},
		"a parameter":       {"?plan=free", "application/jsonl", "", nil, 400, "unknown_parameter"},
		"a dry run":         {"?dry_run=true", "application/jsonl", "", nil, 400, "unknown_parameter"},
		"a malformed query": {"?%zz", "application/jsonl", "", nil, 400, "invalid_request"},
		"the gate starts":   {"", "application/jsonl", "", store.ErrOpening, 503, "unavailable"},
	} {
		g.Break(c.down)
		r := httptest.NewRequest(http.MethodPost, "/tollgate/accounts"+c.target, strings.NewReader(`{"account":"acc_1"}`))
		r.Header.Set("Authorization", "Bearer "+controltest.Secret)
		for name, value := range map[string]string{"Content-Type": c.media, "Accept": c.accept} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		g.Handled.ServeHTTP(w, r)
		g.Break(nil)
		var refused struct{ Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &refused); err != nil || w.Code != c.status || refused.Code != c.code {
			t.Errorf("%s: got %d: %s, want %d %s", name, w.Code, w.Body, c.status, c.code)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: got Cache-Control %q", name, got)
		}
		_, err := g.Opened().Account(t.Context(), "acc_1")
		if exists := err == nil; exists != (c.status == 200) {
			t.Errorf("%s: reading the account: %v", name, err)
		}
		if err := g.Opened().DeleteAccount(t.Context(), "acc_1"); err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
}

// TestImportBrokenBody: the lines before the break are applied, and the last
// one is not, because it may be a part of a line.
func TestImportBrokenBody(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	lines := strings.NewReader(`{"account":"acc_1"}` + "\n" + `{"account":"acc_2"}`)
	r := httptest.NewRequest(http.MethodPost, "/tollgate/accounts", io.MultiReader(lines, iotest.ErrReader(errors.New("broken"))))
	r.Header.Set("Authorization", "Bearer "+controltest.Secret)
	r.Header.Set("Content-Type", "application/jsonl")
	w := httptest.NewRecorder()
	g.Handled.ServeHTTP(w, r)
	const want = `{"line":1,"account":"acc_1","status":201}` + "\n" +
		`{"line":2,"account":"","status":400,"message":"The body could not be read.","code":"invalid_request"}` + "\n"
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != api.LinesType || w.Body.String() != want {
		t.Errorf("got %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	if _, err := g.Opened().Account(t.Context(), "acc_1"); err != nil {
		t.Errorf("the complete line: %v", err)
	}
	if _, err := g.Opened().Account(t.Context(), "acc_2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the other line: %v", err)
	}
}

// TestImportTerms: lines set billing days and ends of plans, within the bounds of PUT.
func TestImportTerms(t *testing.T) {
	t.Parallel()
	g, c, _ := importing(t)
	g.AcceptForeign(t)
	for body, want := range map[string]int{
		`{"account":"acc_1","plan":"starter","billing_day":15,"plan_until":"2126-12-01T00:00:00+01:00","then":"business"}`: 201,
		`{"account":"acc_2","billing_day":32}`: 400, `{"account":"acc_2","billing_day":0}`: 400, `{"account":"acc_2","then":"starter"}`: 400,
	} {
		if got := results(t, c, body); got[0].Status != want {
			t.Errorf("%s: got %+v, want %d", body, got, want)
		}
	}
	keys := controltest.KeyResults(t, c, false,
		controltest.KeyLine("acc_3", controltest.ForeignToken(1), `,"plan":"starter","billing_day":31`),
		controltest.KeyLine("acc_3", controltest.ForeignToken(2), `,"plan":"starter","billing_day":7`),
		controltest.KeyLine("acc_4", controltest.ForeignToken(3), `,"plan":"starter","billing_day":32`))
	if keys[0].Status != 201 || keys[1].Status != 201 || keys[2].Status != 400 {
		t.Errorf("got %+v", keys)
	}
	for account, day := range map[string]int{"acc_1": 15, "acc_3": 31} { // acc_3 keeps the day of its first line
		if got, err := c.Account(t.Context(), account); err != nil || got.BillingDay != day {
			t.Errorf("got %+v, %v, want day %d", got, err, day)
		}
	}
	g.Advance(15 * 24 * time.Hour)
	if got, err := c.Account(t.Context(), "acc_1"); err != nil || got.Plan != "business" || got.PlanUntil != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}
