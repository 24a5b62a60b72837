package caddymodule_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// dying is an engine whose process ends before it moves the counts of a credit.
type dying struct{ book.Engine }

var errEnded = errors.New("the process ended")

func (dying) Credit(context.Context, string, []string, calendar.Day, string, int64) error {
	return errEnded
}

// TestCreditFinishedAtStart: a gate ended in a credit, in a reset and in a credit of a
// closed account, behind the step that makes it. The next start finishes all three.
func TestCreditFinishedAtStart(t *testing.T) {
	day := calendar.UTCDay(time.Now())
	ended, crashed := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	engine, err := badgerstore.Open(ended, badgerstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	gate, nothing := book.New(dying{engine}, slog.New(slog.DiscardHandler)), func(*book.Account, []book.Credit) {}
	accounts := []string{"acc_closed", "acc_credit", "acc_reset"}
	for _, id := range accounts {
		if _, err := storetest.PutAccount(t.Context(), gate, store.Account{ID: id, Plan: "starter", CreatedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if ok, err := gate.Take(t.Context(), store.Call{Account: id, Endpoint: "convert", Day: day, Cost: 5}, nil, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if err := gate.CloseAccount(t.Context(), time.Now(), "acc_closed", day, day, func(*book.Account, []book.Bill) {}); err != nil {
		t.Fatal(err)
	}
	for _, id := range accounts[:2] {
		if _, err := gate.Credit(t.Context(), time.Now(), id, "credit_1", []book.Credit{{Day: day, Endpoint: "convert", Calls: 4}}, nothing); !errors.Is(err, errEnded) {
			t.Fatal(err)
		}
	}
	if err := gate.Reset(t.Context(), time.Now(), "acc_reset", "", day, nothing); !errors.Is(err, errEnded) {
		t.Fatal(err)
	}
	if err := os.CopyFS(crashed, os.DirFS(ended)); err != nil {
		t.Fatal(err)
	}
	s := start(t, setup{dir: crashed})
	eventually(t, "the credits in the export", func() bool {
		bills, _, err := s.store(t).Bills(t.Context(), "", 10, day, day)
		if err != nil || len(bills) != 3 {
			t.Fatalf("got %+v, %v", bills, err)
		}
		return bills[0].Credited == 4 && bills[1].Credited == 4 && bills[2].Credited == 5
	})
	for id, want := range map[string]int64{"acc_credit": 1, "acc_reset": 0} {
		if used := s.used(t, id, "convert"); used != want {
			t.Errorf("%s used %d, want %d", id, used, want)
		}
	}
	marks := 0
	for _, p := range storetest.Pieces(t, s.store(t).Book) {
		if p.Row != nil && strings.HasPrefix(p.Space.Name, "moving") {
			marks++
		}
	}
	if marks != 3 {
		t.Errorf("%d marks of credits are left, want 3: they are younger than a minute", marks)
	}
}
