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

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

// scaleDays is the number of days that each account has a count of, and
// scaleCallers the number of accounts that call.
const scaleDays, scaleCallers = 30, 10_000

// beforeMidnight is the time from the start of a gate to its midnight, and
// aroundMidnight the duration of a load.
const beforeMidnight, aroundMidnight = 90 * time.Second, 10 * time.Second

// measureScale measures one gate with many accounts that have a key and
// counts of a month. Each figure is one run.
func measureScale(ctx context.Context, b *bench) ([]row, error) {
	upstream, err := b.startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "scale")
	began := time.Now()
	tokens, err := restoreStore(ctx, dir, b.accounts, scaleDays, scaleCallers)
	if err != nil {
		return nil, err
	}
	restored := time.Since(began)
	midnight := time.Now().Add(beforeMidnight).Truncate(time.Second)
	if err := writeZone(filepath.Join(b.dir, "Bench", "Midnight"), midnight); err != nil {
		return nil, err
	}
	config, err := gateConfig(ctx, badger(dir, "sync off"), "Bench/Midnight", proxyTo(upstream))
	if err != nil {
		return nil, err
	}
	config.variables = []string{"ZONEINFO=" + b.dir}
	h := hashTime()
	began = time.Now()
	gate, err := b.startCaddy(ctx, config, answers{token: tokens[0], status: http.StatusOK})
	if err != nil {
		return nil, err
	}
	started := float64(time.Since(began))
	rows := []row{
		{what: fmt.Sprintf("start with %d accounts, a key and %d counts each", b.accounts, scaleDays), unit: asSecs, measured: values{started}},
		{what: "  for each account", unit: asNanos, in: inH(values{h}), measured: values{started / float64(b.accounts)}},
		{what: "  restore of these into an empty store", unit: asSecs, measured: values{float64(restored)}},
	}
	admin, err := client.New("http://"+gate.admin, "")
	if err != nil {
		return nil, err
	}
	var first, second values
	var before, at load
	for _, step := range []struct {
		what string
		unit unit
		do   func() (float64, error)
	}{
		{"  memory of Caddy (resident) after it", asMiB, func() (float64, error) {
			_, m, err := usageOf(gate.pid())
			return m.resident, err
		}},
		{"  its heap without garbage", asMiB, func() (float64, error) { return liveHeap(ctx, gate) }},
		{"first call of an account, one connection", asMicros, func() (_ float64, err error) {
			first, second, err = firstCalls(ctx, gate, tokens)
			return first.median(), err
		}},
		{"  its second call", asMicros, func() (float64, error) { return second.median(), nil }},
		{"ten seconds of 64 connections before midnight: p99", asMillis, func() (_ float64, err error) {
			// The first load makes the first calls of all accounts.
			for range 2 {
				if before, err = callTogether(ctx, gate.address, tokens, aroundMidnight); err != nil {
					break
				}
			}
			return 1e3 * float64(before.P99), err
		}},
		{"  longest answer", asMillis, func() (float64, error) { return 1e3 * float64(before.Longest), nil }},
		{"ten seconds of 64 connections around midnight: p99", asMillis, func() (_ float64, err error) {
			if err = sleepUntil(ctx, midnight.Add(-aroundMidnight/2)); err == nil {
				at, err = callTogether(ctx, gate.address, tokens, aroundMidnight)
			}
			return 1e3 * float64(at.P99), err
		}},
		{"  longest answer", asMillis, func() (float64, error) { return 1e3 * float64(at.Longest), nil }},
		{"first page of the list of accounts", asMillis, timed(func() error {
			page, err := admin.Accounts(ctx, "", 0)
			return atLeastOne(page.Accounts, err)
		})},
		{"search in ids and labels of all accounts", asMillis, timed(func() error {
			return atLeastOne(client.All(func(after string) ([]api.Account, *string, error) {
				page, err := admin.FindAccounts(ctx, client.AccountFilter{Search: accountID(b.accounts - 1)}, after, 0)
				return page.Accounts, page.Next, err
			}))
		})},
		{fmt.Sprintf("export of %d days", scaleDays), asSecs, timed(func() error { return b.export(ctx, admin) })},
		{"backup", asSecs, timed(func() error { return admin.Backup(ctx, io.Discard) })},
	} {
		value, err := step.do()
		if err != nil {
			return rows, fmt.Errorf("%s: %w: %s", step.what, err, gate.messages())
		}
		rows = append(rows, row{what: step.what, unit: step.unit, measured: values{value}})
	}
	return rows, nil
}

func timed(do func() error) func() (float64, error) {
	return func() (float64, error) {
		began := time.Now()
		err := do()
		return float64(time.Since(began)), err
	}
}

// sleepUntil waits for an instant, which must be in the future.
func sleepUntil(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait < 0 {
		return fmt.Errorf("it is %s too late", -wait)
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// liveHeap makes Caddy collect its garbage and returns the rest.
func liveHeap(ctx context.Context, gate *server) (float64, error) {
	if _, err := get(ctx, "http://"+gate.admin+"/debug/pprof/heap?gc=1"); err != nil {
		return 0, fmt.Errorf("collecting garbage: %w", err)
	}
	heap, err := readMetrics(ctx, gate.admin, "go_memstats_heap_alloc_bytes")
	return heap.median(), err
}

// firstCalls measures the first calls of accounts, which read their counts of
// the month, and the second ones.
func firstCalls(ctx context.Context, gate *server, tokens []string) (first, second values, err error) {
	c, err := connect(ctx, gate.address, requestsOf(gate.address, tokens[len(tokens)-blockCalls:]))
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	if first, err = c.block(ctx); err == nil {
		second, err = c.block(ctx)
	}
	return first, second, err
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
		for after, more := "", true; more; {
			page, err := admin.Counts(ctx, (day - calendar.Day(n)).String(), after, client.PageSize)
			if err != nil {
				return err
			}
			rows += len(page.Counts)
			if more = page.Next != nil; more {
				after = *page.Next
			}
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
