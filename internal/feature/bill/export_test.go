package bill_test

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// TestExportInterrupted interrupts an export while it waits for the gate. It
// leaves no file. It is not parallel, because the signal is for the process.
func TestExportInterrupted(t *testing.T) {
	process, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tollgate/plans" {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(`{"plans":[],"endpoints":[],"timezone":"UTC","day":"2026-11-20"}`))
			return
		}
		if err := process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	defer gate.Close()
	dir := t.TempDir()
	_, complaints, err := clitest.RunAt(t.Context(), gate.URL, "", "usage", "export", "--month", "2026-11", "--output", filepath.Join(dir, "month.csv"))
	if err == nil || !strings.Contains(complaints, "terminated") {
		t.Errorf("got %v, %s", err, complaints)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("an interrupted export left %v, %v", left, err)
	}
}

// TestLongExport exports a whole month of many accounts and endpoints: each has
// so many rows that it has a page of its own.
func TestLongExport(t *testing.T) {
	t.Parallel()
	s := clitest.New(t)
	accounts := 10
	if storetest.Long() {
		accounts = 1000
	}
	const endpoints, days = 130, 30 // November
	first := s.Policy().Calendar.At(s.Now()).Day - 19
	var ids []string
	for n := range accounts {
		ids = append(ids, fmt.Sprintf("acc_%04d", n))
	}
	for some := range slices.Chunk(ids, store.MaxBatch) {
		_, errs := s.Opened().ChangeAccounts(t.Context(), some, func(_ int, account *store.Account, _ bool) error {
			account.Plan, account.Label = "starter", strings.Repeat("ä", store.MaxLabel)
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	var want int64
	for _, id := range ids {
		for n := range endpoints * days {
			call := store.Call{Account: id, Endpoint: fmt.Sprintf("endpoint_%03d", n%endpoints), Day: first + calendar.Day(n/endpoints), Cost: int64(n)}
			if _, err := s.Opened().Take(t.Context(), call, nil, nil); err != nil {
				t.Fatal(err)
			}
			want += call.Weight()
		}
	}
	out, _, err := s.Run(t.Context(), "", "usage", "export", "--month", "2126-11")
	if pages := strings.Count(s.URLs(), "/tollgate/usage/counts"); err != nil || pages != accounts {
		t.Fatalf("got %d pages, %v, want %d", pages, err, accounts)
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	inOrder := slices.IsSortedFunc(rows[1:], func(a, b []string) int {
		return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0]), cmp.Compare(a[2], b[2]))
	})
	if err != nil || len(rows) != accounts*endpoints*days+1 || !inOrder {
		t.Fatalf("got %v, %d rows, want %d in order", err, len(rows), accounts*endpoints*days+1)
	}
	var got int64
	for _, row := range rows[1:] {
		calls, err := strconv.ParseInt(row[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got += calls
	}
	if got != want {
		t.Errorf("the rows have %d calls, want %d", got, want)
	}
}
