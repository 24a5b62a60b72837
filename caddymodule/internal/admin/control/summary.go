package control

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/usage"
)

const (
	summaryFresh = time.Minute     // the age of a summary from which on the next one is made
	summaryShown = time.Hour       // the age from which on a request waits for the next one
	summaryWait  = 4 * time.Second // how long it waits, which is less than upstream waits for the gate
)

// showSummary returns the last summary. To make one, all accounts are read.
func (s *server) showSummary(ctx context.Context, with *session, _ *struct{}) (api.Summary, error) {
	last := s.summary.Load()
	age := with.now.Sub(last.At).Abs() // a clock can be set back
	if age < summaryFresh {
		return *last, nil
	}
	// The client may be gone before it is made.
	made := s.summing.DoChan("", func() (any, error) { return s.makeSummary(context.WithoutCancel(ctx), with) })
	if age < summaryShown {
		return *last, nil
	}
	waiting, cancel := context.WithTimeout(ctx, summaryWait)
	defer cancel()
	select {
	case result := <-made:
		return result.Val.(api.Summary), result.Err
	case <-waiting.Done():
		return api.Summary{}, errUnavailable
	}
}

// makeSummary makes the next summary and keeps it. A panic is an error: in the
// background, it would end the process.
func (s *server) makeSummary(ctx context.Context, with *session) (made api.Summary, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("making the summary panicked: %v\n%s", reason, debug.Stack())
		}
		err = s.refuse(ctx, err)
	}()
	if made, err = usage.Summarize(ctx, with.policy, with.book, round(with.now), *s.summary.Load()); err != nil {
		return made, err
	}
	if made.Checks, err = with.checks(ctx, s.backend.HasWebhook()); err == nil {
		s.summary.Store(&made)
	}
	return made, err
}

// checks returns what an operator looks after besides the readiness. A message
// says what to do. A check fails when the alert TollgateWebhookFails or
// TollgateBackupOld fires.
func (with *session) checks(ctx context.Context, hasWebhook bool) ([]api.Check, error) {
	backedUp, err := with.book.LastBackup(ctx)
	queued, err2 := with.book.QueuedEvents(ctx)
	oldest, err3 := with.book.OldestEvent(ctx)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, fmt.Errorf("reading the events and the last backup: %w", err)
	}
	backup := api.Check{Name: "backup", OK: with.now.Sub(backedUp) <= 26*time.Hour, Message: "The last backup of the gate succeeded at " + round(backedUp).Format(time.DateTime) + " UTC."}
	if backedUp.IsZero() {
		backup.Message = "No backup of the gate ever succeeded."
	}
	if !backup.OK {
		backup.Message += " Run systemctl status tollgate-backup.timer and journalctl -u tollgate-backup, repair what they say, and run systemctl start tollgate-backup."
	}
	if !hasWebhook {
		return []api.Check{backup}, nil
	}
	webhook := api.Check{Name: "webhook", OK: true, Message: "No event waits for delivery."}
	if !oldest.IsZero() {
		wait := max(0, with.now.Sub(oldest).Truncate(time.Second))
		webhook.OK, webhook.Message = wait <= 15*time.Minute, fmt.Sprintf("Events that wait for delivery: %d, the oldest for %s.", queued, wait)
	}
	if !webhook.OK {
		webhook.Message += ` Look for "posting an event" in the log. The receiver must answer with 2xx within 15 seconds. The gate tries each event for 24 hours.`
	}
	return []api.Check{webhook, backup}, nil
}
