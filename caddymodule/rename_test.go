package caddymodule_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestRenamedReports: refused calls and events of a limit are the same ones
// after a rename.
func TestRenamedReports(t *testing.T) {
	handled.Lock()
	handled.events, handled.takes = nil, 0
	handled.Unlock()
	before := "guard /api/\nendpoint convert GET /api/convert/{from}/{amount}/{to}\nplan small {\nconvert 2\n}\nwarn 80"
	s := start(t, setup{
		zone: calmZone(), port: freePort(t), gate: before,
		global: "events {\n\ton tollgate.quota_exceeded tollgate_test\n\ton tollgate.quota_warning tollgate_test\n\ton tollgate.account_changed tollgate_test\n}",
	})
	account, bearer := s.account(t, "small", "convert")
	refused := func() {
		t.Helper()
		if got := s.get(t, convert, bearer); got.code() != "quota_exceeded" {
			t.Fatalf("got %+v", got)
		}
		if err := app(t).FlushReports(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.get(t, convert, bearer)
	s.get(t, convert, bearer)
	refused()
	s.gate = strings.NewReplacer("{to}", "{to} {\nrename convert\n}", "endpoint convert", "endpoint exchange", "\nconvert 2", "\nexchange 2").Replace(before)
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	refused()
	changeAccount(t, "acc_last") // its event comes behind those of calls
	app(t).Follow()
	want := []string{"tollgate.quota_warning " + account + " 80", "tollgate.quota_exceeded " + account + " 100", "tollgate.account_changed acc_last "}
	var got []string
	eventually(t, "the last event", func() bool {
		handled.Lock()
		defer handled.Unlock()
		got = slices.Clone(handled.events)
		return len(got) > 0 && got[len(got)-1] == want[2]
	})
	if !slices.Equal(got, want) {
		t.Errorf("got the events %q, want %q", got, want)
	}
	day := compiled(t).Calendar.At(time.Now()).Day
	rows, err := s.store(t).ListRefused(t.Context(), account, day, day, store.Refused{}, 9)
	if err != nil || len(rows) != 1 || rows[0].Endpoint != "convert" || rows[0].Calls != 2 {
		t.Errorf("got the refused calls %+v, %v", rows, err)
	}
}
