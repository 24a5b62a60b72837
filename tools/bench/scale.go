package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/benchtest"
)

// scaleDays and scaleCallers are of measureScale: the days that each account
// has a count of, and the accounts that call.
const scaleDays, scaleCallers = 30, 10_000

// beforeMidnight is the time from the start of a gate to its midnight.
const beforeMidnight = 90 * time.Second

// measureScale measures one gate with many accounts that have a key and
// counts of a month. Each figure is one run.
func measureScale(ctx context.Context, b *bench) ([]row, error) {
	upstream, err := b.startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	dir, tokens := filepath.Join(b.dir, "scale"), []string(nil)
	began := time.Now()
	every := max(1, b.accounts/scaleCallers)
	if err := benchtest.RestoreBadger(dir, accountPieces(ctx, b.accounts, scaleDays, func(i int, token string) {
		if i%every == 0 {
			tokens = append(tokens, token)
		}
	})); err != nil {
		return nil, fmt.Errorf("creating a store: %w", err)
	}
	restored := row{what: "  restore of these into an empty store", unit: asSecs, measured: values{float64(time.Since(began))}}

	config, err := gateConfig(ctx, badger(dir, "sync off"), "Bench/Midnight", proxyTo(upstream))
	if err != nil {
		return nil, err
	}
	midnight := time.Now().Add(beforeMidnight).Truncate(time.Second)
	if err := writeZone(filepath.Join(b.dir, "Bench", "Midnight"), midnight); err != nil {
		return nil, err
	}
	config.variables = []string{"ZONEINFO=" + b.dir}
	h := hashTime()
	began = time.Now()
	gate, err := b.startCaddy(ctx, config, answers{token: tokens[0], status: http.StatusOK})
	if err != nil {
		return nil, err
	}
	took := values{float64(time.Since(began))}
	rows := []row{
		{what: fmt.Sprintf("start with %d accounts, a key and %d counts each", b.accounts, scaleDays), unit: asSecs, measured: took},
		{what: "  for each account", unit: asNanos, in: inH(values{h}), measured: values{took[0] / float64(b.accounts)}},
		restored,
	}
	for _, measure := range []func(context.Context, *server) ([]row, error){scaleMemory, firstCalls(tokens), midnightUnderLoad(tokens, midnight), b.administer} {
		more, err := measure(ctx, gate)
		if err != nil {
			return rows, fmt.Errorf("%w: %s", err, gate.messages())
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// scaleMemory measures the memory after a start.
func scaleMemory(ctx context.Context, gate *server) ([]row, error) {
	_, m, err := usageOf(gate.pid())
	if err != nil {
		return nil, err
	}
	if _, err := get(ctx, "http://"+gate.admin+"/debug/pprof/heap?gc=1"); err != nil {
		return nil, fmt.Errorf("collecting garbage: %w", err)
	}
	heap, err := readMetrics(ctx, gate.admin, "go_memstats_heap_alloc_bytes")
	return []row{
		{what: "  memory of Caddy (resident) after it", unit: asMiB, measured: values{m.resident}},
		{what: "  its heap without garbage", unit: asMiB, measured: heap},
	}, err
}

// firstCalls measures the first calls of accounts, which read their counts of
// the month, and the second ones.
func firstCalls(tokens []string) func(context.Context, *server) ([]row, error) {
	return func(ctx context.Context, gate *server) ([]row, error) {
		tokens := tokens[max(0, len(tokens)-blockCalls):]
		c, err := connect(ctx, gate.address, requestsOf(gate.address, tokens))
		if err != nil {
			return nil, err
		}
		defer c.Close()
		var blocks [2]values
		for i := range blocks {
			for range tokens {
				took, err := c.call()
				if err != nil {
					return nil, err
				}
				blocks[i] = append(blocks[i], float64(took))
			}
		}
		return []row{
			{what: "first call of an account, one connection", unit: asMicros, measured: values{blocks[0].median()}},
			{what: "  its second call", unit: asMicros, measured: values{blocks[1].median()}},
		}, nil
	}
}

// midnightUnderLoad loads the gate while its day ends, and before.
func midnightUnderLoad(tokens []string, midnight time.Time) func(context.Context, *server) ([]row, error) {
	const window = 10 * time.Second
	return func(ctx context.Context, gate *server) ([]row, error) {
		var loads [2]load
		for i, start := range []time.Time{{}, midnight.Add(-window / 2)} {
			if late := time.Since(midnight.Add(-window / 2)); late > 0 {
				return nil, fmt.Errorf("the gate was ready %s too late for its midnight", late)
			}
			select {
			case <-time.After(time.Until(start)):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			var err error
			if loads[i], err = callTogether(ctx, gate.address, tokens, window); err != nil {
				return nil, err
			}
		}
		before, at := loads[0], loads[1]
		micros := func(v int64) values { return values{1e3 * float64(v)} }
		return []row{
			{what: "ten seconds around midnight, 64 connections: p99", unit: asMillis, measured: micros(at.P99)},
			{what: "  longest answer", unit: asMillis, measured: micros(at.Longest)},
			{what: "  ten seconds before: p99", unit: asMillis, measured: micros(before.P99)},
			{what: "  longest answer", unit: asMillis, measured: micros(before.Longest)},
		}, nil
	}
}

// administer measures lists, the export of a month and a backup.
func (b *bench) administer(ctx context.Context, gate *server) (rows []row, err error) {
	admin, err := client.New("http://"+gate.admin, "")
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"first page of the list of accounts", func() error {
			page, err := admin.Accounts(ctx, "", 0)
			return atLeastOne(page.Accounts, err)
		}},
		{"search in ids and labels of all accounts", func() error {
			return atLeastOne(client.All(func(after string) ([]api.Account, *string, error) {
				page, err := admin.FindAccounts(ctx, client.AccountFilter{Search: accountID(b.accounts - 1)}, after, 0)
				return page.Accounts, page.Next, err
			}))
		}},
		{fmt.Sprintf("export of %d days", scaleDays), func() error { return b.export(ctx, admin) }},
		{"backup", func() error { return admin.Backup(ctx, io.Discard) }},
	} {
		began := time.Now()
		if err := step.do(); err != nil {
			return rows, fmt.Errorf("%s: %w", step.what, err)
		}
		rows = append(rows, row{what: step.what, unit: asMillis, measured: values{float64(time.Since(began))}})
	}
	return rows, nil
}

func atLeastOne(accounts []api.Account, err error) error {
	if err == nil && len(accounts) == 0 {
		err = errors.New("found no account")
	}
	return err
}

// export reads the counts of all accounts and days, as the command does.
func (b *bench) export(ctx context.Context, admin *client.Client) error {
	day, err := today()
	if err != nil {
		return err
	}
	for n := range scaleDays {
		rows := 0
		for after := new(""); after != nil; {
			page, err := admin.CountsOfDay(ctx, (day - calendar.Day(n)).String(), *after, client.PageSize)
			if err != nil {
				return err
			}
			rows += len(page.Counts)
			after = page.Next
		}
		if rows < b.accounts {
			return fmt.Errorf("got %d counts of a day, want at least %d", rows, b.accounts)
		}
	}
	return nil
}

// writeZone writes the file of a time zone in which a day ends at an instant.
// A gate finds it by the variable ZONEINFO.
func writeZone(path string, midnight time.Time) error {
	const day, name = 24 * 60 * 60, "BENCH\x00"
	offset := day - midnight.Unix()%day
	if offset > day/2 {
		offset -= day
	}
	// The format is RFC 9636: one time type and no transitions.
	file := append([]byte("TZif"), make([]byte, 16)...)
	for _, n := range []uint32{0, 0, 0, 0, 1, uint32(len(name)), uint32(int32(offset))} {
		file = binary.BigEndian.AppendUint32(file, n)
	}
	file = append(append(file, 0, 0), name...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, file, 0o600)
}
