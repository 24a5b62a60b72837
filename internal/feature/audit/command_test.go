package audit_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// TestAuditLimit: --limit reads the end of a long log, and no more.
func TestAuditLimit(t *testing.T) {
	t.Parallel()
	s := clitest.New(t)
	entries := make([]store.Entry, 2500)
	for i := range entries {
		entries[i] = store.Entry{At: s.Now(), ActorKind: "application", Action: api.AccountSet, Account: "acc_1", Target: strconv.Itoa(i)}
	}
	if err := s.Opened().AddEntries(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]int{1: 1, 1000: 1, 1001: 2, 9999: 3} {
		before := strings.Count(s.URLs(), "\n")
		out, _, err := s.Run(t.Context(), "", "audit", "--json", "--limit", strconv.Itoa(limit))
		var page api.AuditPage
		if requests := strings.Count(s.URLs(), "\n") - before; err != nil || json.Unmarshal([]byte(out), &page) != nil || requests != want {
			t.Errorf("--limit %d: got %v after %d requests, want %d", limit, err, requests, want)
		}
		last := entries[max(0, len(entries)-limit):]
		if !slices.EqualFunc(page.Audit, last, func(got api.AuditEntry, want store.Entry) bool { return got.Target == want.Target }) {
			t.Errorf("--limit %d: got %d entries, want the last %d in order", limit, len(page.Audit), len(last))
		}
	}
}
