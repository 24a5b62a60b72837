package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

// scaleDays is the number of days that each account has a count of.
const scaleDays = 30

// measureScale measures one gate with many accounts that have a key and
// counts of a month. Each figure is one run.
func measureScale(ctx context.Context, b *bench) ([]row, error) {
	dir := filepath.Join(b.dir, scale)
	tokens, err := restoreStore(ctx, dir, b.accounts, scaleDays, blockCalls+1)
	if err != nil {
		return nil, err
	}
	h, began := hashTime(), time.Now()
	gate, err := b.startOn(ctx, badger(dir, "sync off"), proxyTo(b.upstream), answers{token: tokens[0], status: http.StatusOK})
	if err != nil {
		return nil, err
	}
	started := float64(time.Since(began))
	used, err := gate.with(nil).used()
	if err != nil {
		return nil, err
	}
	heap, err := liveHeap(ctx, gate)
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, gate.address, tokens[1:blockCalls+1])
	if err != nil {
		return nil, err
	}
	defer c.Close()
	first, err := c.block(ctx) // reads the counts of the month
	if err != nil {
		return nil, err
	}
	second, err := c.block(ctx)
	if err != nil {
		return nil, err
	}
	rows := []row{
		{what: fmt.Sprintf("start with %d accounts, a key and %d counts each", b.accounts, scaleDays), unit: asSecs, measured: values{started}},
		{what: "  for each account", unit: asNanos, in: inH(values{h}), measured: values{started / float64(b.accounts)}},
		{what: "  memory of Caddy (resident) after it", unit: asMiB, measured: values{used.resident}},
		{what: "  its heap without garbage", unit: asMiB, measured: values{heap}},
		{what: "first call of an account, one connection", unit: asMicros, measured: values{first.median()}},
		{what: "  its second call", unit: asMicros, measured: values{second.median()}},
	}
	more, err := b.timeControl(ctx, gate)
	return append(rows, more...), err
}

// timeControl times calls of the control API that read all accounts.
func (b *bench) timeControl(ctx context.Context, gate *server) (rows []row, err error) {
	admin, err := client.New("http://"+gate.admin, "")
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"first page of the list of accounts", func() error {
			page, err := admin.Accounts(ctx, api.AccountQuery{})
			return atLeastRows(1, page.Accounts, err)
		}},
		{"search in ids and labels of all accounts", func() error {
			found, err := client.All(func(after string) ([]api.Account, *string, error) {
				page, err := admin.Accounts(ctx, api.AccountQuery{Search: accountID(b.accounts - 1), After: after})
				return page.Accounts, page.Next, err
			})
			return atLeastRows(1, found, err)
		}},
		{fmt.Sprintf("export of %d days", scaleDays), func() error { return b.export(ctx, admin) }},
		{"backup", func() error { return admin.Backup(ctx, io.Discard) }},
	} {
		began := time.Now()
		if err := step.do(); err != nil {
			return rows, fmt.Errorf("%s: %w: %s", step.what, err, gate.messages())
		}
		rows = append(rows, row{what: step.what, unit: asMillis, measured: values{float64(time.Since(began))}})
	}
	return rows, nil
}

// liveHeap makes Caddy collect its garbage and returns the rest, in bytes.
func liveHeap(ctx context.Context, gate *server) (bytes float64, err error) {
	text, err := get(ctx, "http://"+gate.admin+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, fmt.Errorf("collecting garbage: %w", err)
	}
	_, value, _ := strings.Cut(string(text), "\n# HeapAlloc = ")
	if _, err := fmt.Sscan(value, &bytes); err != nil {
		return 0, fmt.Errorf("reading the size of the heap: %w", err)
	}
	return bytes, nil
}

func atLeastRows[T any](n int, rows []T, err error) error {
	if err == nil && len(rows) < n {
		err = fmt.Errorf("got %d rows, want at least %d", len(rows), n)
	}
	return err
}

// export reads the counts of all accounts and days, as the command does.
func (b *bench) export(ctx context.Context, admin *client.Client) error {
	day, err := today()
	for n := 0; err == nil && n < scaleDays; n++ {
		var rows []api.UsageCount
		rows, err = client.All(func(after string) ([]api.UsageCount, *string, error) {
			page, err := admin.Counts(ctx, (day - calendar.Day(n)).String(), after, client.PageSize)
			return page.Counts, page.Next, err
		})
		err = atLeastRows(b.accounts, rows, err)
	}
	return err
}
