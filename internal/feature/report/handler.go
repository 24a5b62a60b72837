// Package report has what operators ask about all accounts: the busiest, a
// summary, and the key of a token.
package report

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

const (
	summaryFresh = time.Minute     // the age of a summary from which on the next one is made
	summaryShown = time.Hour       // the age from which on a request waits for the next one
	summaryWait  = 4 * time.Second // how long it waits, which is less than upstream waits for the gate
)

// Watched tells what an operator looks after.
type Watched interface {
	// Watched tells whether the configuration has a webhook, and whether this
	// machine has the package's unit for backups.
	Watched() (webhook, backup bool)
}

// reporter keeps the last summary.
type reporter struct {
	*admin.Server
	watched Watched
	summary atomic.Pointer[api.Summary]
	summing singleflight.Group
}

// Serve adds the operations about all accounts.
func Serve(s *admin.Server, watched Watched) {
	r := &reporter{Server: s, watched: watched}
	r.summary.Store(new(api.Summary))
	admin.Handle(s, api.ShowSummary, r.showSummary)
	admin.Handle(s, api.FindKey, findKey)
	admin.Handle(s, api.ShowTop, func(ctx context.Context, with *admin.Session, in *api.TopQuery) (api.UsageTop, error) {
		return Top(ctx, with.Policy, with.Book, TopQuery{Now: with.Now, Days: in.Days, Limit: in.Limit})
	})
}

// showSummary returns the last summary. To make one, all accounts are read.
func (r *reporter) showSummary(ctx context.Context, with *admin.Session, _ *api.None) (api.Summary, error) {
	last := r.summary.Load()
	age := with.Now.Sub(last.At).Abs() // a clock can be set back
	if age < summaryFresh {
		return *last, nil
	}
	// The client may be gone before it is made.
	made := r.summing.DoChan("", func() (any, error) { return r.makeSummary(context.WithoutCancel(ctx), with) })
	if age < summaryShown {
		return *last, nil
	}
	waiting, cancel := context.WithTimeout(ctx, summaryWait)
	defer cancel()
	select {
	case result := <-made:
		return result.Val.(api.Summary), result.Err
	case <-waiting.Done():
		return api.Summary{}, admin.ErrUnavailable
	}
}

// makeSummary makes the next summary and keeps it. A panic is an error: in the
// background, it would end the process.
func (r *reporter) makeSummary(ctx context.Context, with *admin.Session) (made api.Summary, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("making the summary panicked: %v\n%s", reason, debug.Stack())
		}
		err = r.Refuse(ctx, err)
	}()
	if made, err = Summarize(ctx, with.Policy, with.Book, admin.Round(with.Now), *r.summary.Load()); err != nil {
		return made, err
	}
	if made.Checks, err = checks(ctx, with, r.watched); err == nil {
		r.summary.Store(&made)
	}
	return made, err
}

// backupOld is the age of a backup from which on the alert TollgateBackupOld fires.
const backupOld = 26 * time.Hour

// checks returns what an operator looks after besides the readiness.
func checks(ctx context.Context, with *admin.Session, watched Watched) ([]api.Check, error) {
	backedUp, err := with.Book.LastBackup(ctx)
	first, err2 := with.Book.ListEntries(ctx, book.EntryFilter{}, store.EntryID{}, 1)
	queued, oldest, err3 := with.Book.QueuedEvents(ctx)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, fmt.Errorf("reading the events and the last backup: %w", err)
	}
	checks := []api.Check{}
	hasWebhook, hasTimer := watched.Watched()
	if hasWebhook {
		checks = append(checks, webhook(with.Now, queued, oldest))
	}
	// A store without an old change has nothing to lose yet. Without the unit, only
	// the person who made a backup means to make more.
	if !backedUp.IsZero() || hasTimer && len(first) > 0 && with.Now.Sub(first[0].At) > backupOld {
		checks = append(checks, backup(with.Now, backedUp, hasTimer))
	}
	return checks, nil
}

// backup fails when the alert TollgateBackupOld fires.
func backup(now, last time.Time, hasTimer bool) api.Check {
	c := api.Check{Name: "backup", OK: now.Sub(last) <= backupOld, Message: "The last backup of the gate succeeded at " + admin.Round(last).Format(time.DateTime) + " UTC."}
	if last.IsZero() {
		c.Message = "No backup of the gate ever succeeded."
	}
	switch {
	case c.OK:
	case hasTimer:
		c.Remedy = "Run systemctl enable --now tollgate-backup.timer and systemctl start tollgate-backup. If that fails, journalctl -u tollgate-backup says why."
	default:
		c.Remedy = "Run caddy tollgate backup every night: see Backup and restore in docs/customers.md."
	}
	return c
}

// webhook fails when the alert TollgateWebhookFails fires.
func webhook(now time.Time, queued int, oldest time.Time) api.Check {
	c := api.Check{Name: "webhook", OK: true, Message: "No event waits for delivery."}
	if !oldest.IsZero() {
		wait := max(0, now.Sub(oldest).Truncate(time.Second))
		c.OK, c.Message = wait <= 15*time.Minute, fmt.Sprintf("Events that wait for delivery: %d, the oldest for %s.", queued, wait)
	}
	if !c.OK {
		c.Message += " The gate tries each event for 24 hours."
		c.Remedy = `Look for "posting an event" in the log of Caddy. The receiver must answer with 2xx within 15 seconds.`
	}
	return c
}
