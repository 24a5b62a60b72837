package web

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/account"
)

const (
	operatorCalls   = 20 // recent calls on the page of an account
	operatorEntries = 10 // entries of the audit log there
)

// sheet is an account as an operator sees it.
type sheet struct {
	*subject
	Limits    meters
	Overrides []overrideRow
	// Credits are the calls of the last days that were given back.
	Credits []creditRow
	Keys    keysView
	// Refused is the number of refused calls of the last week by code.
	Refused []tally
	Calls   []callRow
	Entries []entryRow
}

type overrideRow struct {
	Target, Covers, Text, Reason string
	Ends                         *moment
}

type creditRow struct{ Day, Endpoint, Calls string }

// tally is a number with its name.
type tally struct{ Name, Count string }

func (s *site) operatorAccount(w http.ResponseWriter, r *http.Request, v *visit) error {
	of, err := s.subject(r, v)
	if err != nil {
		return err
	}
	view, err := s.sheet(r.Context(), of)
	if err != nil {
		return err
	}
	p := v.page(of.Name(), operatorSection, view)
	p.Notice = operatorActions[r.URL.Query().Get("done")].Done
	return s.views.show(w, http.StatusOK, "operatoraccount", p)
}

// sheet asks the gate for all about an account at once.
func (s *site) sheet(ctx context.Context, of *subject) (*sheet, error) {
	var (
		id        = of.Account.Account
		document  api.UsageDocument
		overrides []api.Override
		keys      []api.Key
		refused   []api.Refused
		log       api.AuditPage
	)
	ctx, cancel := account.OfCall(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { document, err = s.usageOf(ctx, of.visit, historyDays); return err })
	group.Go(func() (err error) { overrides, err = s.Gate.Limits(ctx, id); return err })
	group.Go(func() (err error) { keys, err = s.keyList(ctx, of.visit, false); return err })
	group.Go(func() (err error) { refused, err = s.refusedOf(ctx, of.visit, recentDays); return err })
	group.Go(func() (err error) {
		log, err = s.Gate.Audit(ctx, client.AuditFilter{Account: id, NewestFirst: true}, "", operatorEntries)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	view := &sheet{subject: of, Entries: of.visit.entryRows(log.Audit)}
	view.Refused = tallies(sumBy(refused, func(r api.Refused) string { return r.Code }))
	view.Keys.fill(of.visit, keys)
	view.setOverrides(overrides)
	view.setUsage(document)
	return view, nil
}

func (view *sheet) setUsage(document api.UsageDocument) {
	view.Limits = view.visit.meters(document)
	view.Calls = view.visit.callRows(document.RecentCalls[:min(len(document.RecentCalls), operatorCalls)])
	for _, day := range slices.Backward(document.Days) {
		for _, endpoint := range slices.Sorted(maps.Keys(day.Credited)) {
			view.Credits = append(view.Credits, creditRow{shortDay(day.Day), endpoint, humanize.Comma(day.Credited[endpoint])})
		}
	}
}

func (view *sheet) setOverrides(overrides []api.Override) {
	for _, o := range overrides {
		row := overrideRow{Target: o.Endpoint + "/" + o.Period, Covers: covers(o.Endpoint), Text: "unlimited calls " + per(o.Period), Reason: o.Reason}
		if o.Limit != nil {
			row.Text = limitText(*o.Limit, o.Period)
		}
		if o.ExpiresAt != nil {
			row.Ends = new(view.visit.clock.moment(*o.ExpiresAt))
		}
		view.Overrides = append(view.Overrides, row)
	}
}

// tallies returns numbers by their names, greatest first.
func tallies(counts map[string]int64) (rows []tally) {
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	for _, name := range names {
		rows = append(rows, tally{name, humanize.Comma(counts[name])})
	}
	return rows
}
