package report_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/report"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/benchtest"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// manyAccounts is the number of accounts of the benchmark.
const manyAccounts = 100_000

func isUnavailable(err error) bool {
	var refused *apierror.Error
	return errors.As(err, &refused) && refused.Code == "unavailable"
}

// processorTime is what the process has used. It matters on a machine that is busy.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// manyGate is a gate over a store of many accounts, with refused calls of each
// second one.
func manyGate(b *testing.B) (*controltest.Gate, http.Handler) {
	b.Helper()
	dir, zone := filepath.Join(b.TempDir(), "store"), "Europe/Berlin"
	days, err := calendar.New(zone)
	if err != nil {
		b.Fatal(err)
	}
	today := days.At(controltest.Start).Day
	if err := benchtest.RestoreBadger(dir, benchtest.Accounts(manyAccounts, today, controltest.Start.AddDate(0, -2, 0))); err != nil {
		b.Fatal(err)
	}
	opened, err := benchtest.OpenBadger(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := opened.Close(); err != nil {
			b.Error(err)
		}
	})
	g := controltest.Over(b, opened.Engine)
	var rows []store.Refused
	for i := range manyAccounts / 2 {
		rows = append(rows, store.Refused{Day: today - calendar.Day(i%7), Account: benchtest.ID(2*i, manyAccounts), Endpoint: "convert", Code: "quota_exceeded", Calls: int64(i)})
	}
	if err := g.Opened().AddRefused(b.Context(), rows); err != nil {
		b.Fatal(err)
	}
	for i := 0; i < manyAccounts; i += store.MaxBatch {
		var ids []string
		for n := range min(store.MaxBatch, manyAccounts-i) {
			ids = append(ids, benchtest.ID(i+n, manyAccounts))
		}
		errs := g.Opened().Change(b.Context(), controltest.Start, ids, func(_ int, a *book.Account) error {
			a.Record(store.Entry{At: controltest.Start, ActorKind: "person", ActorID: a.Label, Action: api.KeyCreate, Reason: "a reason of some words"})
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now() // pages end early by the clock
	g.SetClock(func() time.Time { return controltest.Start.Add(time.Since(began)) })
	return g, feature.Handler(g, slog.New(slog.DiscardHandler))
}

// summaryMade waits for the first summary.
func summaryMade(ctx context.Context, c *client.Client) error {
	_, err := c.Summary(ctx)
	for isUnavailable(err) { // it was not made in time
		_, err = c.Summary(ctx)
	}
	return err
}

// BenchmarkManyAccounts measures what the pages of an operator ask, with many
// accounts: each call alone, and how long it takes to make a summary.
func BenchmarkManyAccounts(b *testing.B) {
	g, handler := manyGate(b)
	c := client.InProcess(handler)
	last := benchtest.ID(manyAccounts-1, manyAccounts)
	measure := func(name string, do func(ctx context.Context) error) {
		b.Run(name, func(b *testing.B) {
			spent, n := processorTime(b), 0
			for b.Loop() {
				n++
				if err := do(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime(b)-spent).Milliseconds())/float64(n), "cpu-ms/op")
		})
	}
	find := func(name string, filter client.AccountFilter) {
		measure(name, func(ctx context.Context) error {
			_, err := c.FindAccounts(ctx, filter, "", 50)
			return err
		})
	}
	measure("summary made", func(ctx context.Context) error {
		return summaryMade(ctx, client.InProcess(feature.Handler(g, slog.New(slog.DiscardHandler))))
	})
	summary, err := report.Summarize(b.Context(), g.Policy(), g.Opened().Book, g.Now(), api.Summary{})
	if err != nil {
		b.Fatal(err)
	}
	measure("summary made from the last one", func(ctx context.Context) error {
		_, err := report.Summarize(ctx, g.Policy(), g.Opened().Book, g.Now(), summary)
		return err
	})
	if err := summaryMade(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	measure("summary kept", func(ctx context.Context) error {
		_, err := c.Summary(ctx)
		return err
	})
	find("all", client.AccountFilter{})
	find("search an e-mail", client.AccountFilter{Search: benchtest.Label(manyAccounts - 1)})
	find("search the end of a key", client.AccountFilter{Search: "0007"})
	find("search nothing", client.AccountFilter{Search: "unknown text"})
	find("search the end of no key", client.AccountFilter{Search: "Zzz9"})
	find("plan", client.AccountFilter{Plan: "business"})
	find("plan without accounts", client.AccountFilter{Plan: "free"})
	find("disabled", client.AccountFilter{Disabled: new(true)})
	measure("look up an id", func(ctx context.Context) error {
		_, err := c.LookUpAccount(ctx, last)
		return err
	})
	measure("look up an e-mail", func(ctx context.Context) error {
		_, err := c.LookUpAccount(ctx, benchtest.Label(manyAccounts-1))
		return err
	})
	measure("usage", func(ctx context.Context) error {
		_, err := c.Usage(ctx, last, 30)
		return err
	})
	measure("audit of an actor", func(ctx context.Context) error {
		_, err := c.Audit(ctx, client.AuditFilter{Actor: "nobody", NewestFirst: true}, "", 100)
		return err
	})
	measure("refused", func(ctx context.Context) error {
		_, err := c.Refused(ctx, 7, last, "", 100)
		return err
	})
}
