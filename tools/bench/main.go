// Command bench measures the cost of the gate and compares it with targets.
//
// Run it with ./xcaddy.sh bench, which builds bin/caddy first:
//
//	./xcaddy.sh bench                       about 20 minutes
//	./xcaddy.sh bench -quick                a smoke test; its figures mean little
//	./xcaddy.sh bench proxy latency         some of the measurements
//
// The measurements are handler, size, proxy, redis, peers, log, refusals,
// latency and start, and scale, which takes minutes and only runs if it is named.
// They use the built programs on the loopback interface, or the packages of the gate.
//
// The speed of a machine changes from minute to minute. Times are therefore
// also multiples of what the run measures near them: see units.go. A
// comparison runs all sides at the same time and loads them in turn, in several
// short rounds. Each round gives one ratio. The table shows the median, and the
// noise: how far the same ratio between two equal processes (an A/A pair) is
// from 1. A value that misses its target by no more than the noise is "within
// the noise". If equal processes differ by more than maxNoise in a round, the
// bench repeats the round, but not too often. If they still differ, the result
// is "too noisy".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run: its settings, its work directory, and what it started.
type bench struct {
	rounds   int
	seconds  int
	accounts int // of the large store
	repeats  int // of what is not measured in rounds
	quick    bool
	only     []string

	caddy    string // the built program
	dir      string
	repeated int            // rounds whose equal sides differed too much
	upstream string         // the address of startUpstream
	stops    []func() error // stop what the current measurement started
}

// measurement gives some rows of the table.
type measurement struct {
	name    string
	measure func(context.Context, *bench) ([]row, error)
}

// scale is the measurement that runs only if it is named.
const scale = "scale"

var measurements = []measurement{
	{"handler", measureHandler},
	{"size", measureSize},
	{"proxy", measureProxy},
	{"redis", measureRedis},
	{"peers", measurePeers},
	{"log", measureLog},
	{"refusals", measureRefusals},
	{"take", measureTake},
	{"latency", measureLatency},
	{"start", measureStart},
	{scale, measureScale},
}

// run prints a table. If one measurement fails, the table shows the others.
func run(ctx context.Context, args []string, output, progress io.Writer) (err error) {
	b, err := parseFlags(args, progress)
	if err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(filepath.Dir(b.caddy), "bench-"); err != nil {
		return fmt.Errorf("creating a work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	notes, err := b.describe(ctx)
	if err != nil {
		return err
	}
	var rows []row
	for _, m := range measurements {
		if !b.wants(m.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(progress, "measuring %s ...\n", m.name)
		more, failure := b.measure(ctx, m)
		rows = append(rows, more...)
		if failure != nil {
			err = errors.Join(err, fmt.Errorf("measuring %s: %w", m.name, failure))
		}
	}
	if len(rows) == 0 {
		return err
	}
	return errors.Join(err, printTable(output, rows), b.printNotes(output, notes))
}

// measure makes one measurement and stops what it started.
func (b *bench) measure(ctx context.Context, m measurement) (rows []row, err error) {
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.startUpstream(ctx); err != nil {
		return nil, err
	}
	return m.measure(ctx, b)
}

// parseFlags reads the command line.
func parseFlags(args []string, usage io.Writer) (*bench, error) {
	b := &bench{accounts: 1_000_000, repeats: 3}
	flags := flag.NewFlagSet("bench [flags] [measurement...]", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&b.rounds, "rounds", 15, "number of rounds")
	flags.IntVar(&b.seconds, "seconds", 2, "duration of one load, in seconds")
	flags.BoolVar(&b.quick, "quick", false, "a smoke test: 2 rounds of 1 second, a store of 20000 accounts")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	b.only = flags.Args()
	if b.quick {
		b.rounds, b.seconds, b.accounts, b.repeats = 2, 1, 20_000, 1
	}
	return b, nil
}

func names() (list []string) {
	for _, m := range measurements {
		list = append(list, m.name)
	}
	return list
}

func (b *bench) wants(name string) bool {
	return slices.Contains(b.only, name) || len(b.only) == 0 && name != scale
}

// check finds errors that would otherwise stop the run after minutes.
func (b *bench) check() (err error) {
	if b.rounds < 1 || b.seconds < 1 {
		return errors.New("-rounds and -seconds must be at least 1")
	}
	for _, name := range b.only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("unknown measurement %q; allowed are %s", name, strings.Join(names(), ", "))
		}
	}
	if b.caddy, err = filepath.Abs(filepath.Join("bin", "caddy")); err != nil {
		return err
	}
	if _, err := os.Stat(b.caddy); err != nil {
		return fmt.Errorf("missing bin/caddy; run ./xcaddy.sh bench: %w", err)
	}
	return nil
}

// stop stops what the measurement started, the last first.
func (b *bench) stop() (err error) {
	for _, stop := range slices.Backward(b.stops) {
		err = errors.Join(err, stop())
	}
	b.stops = nil
	return err
}
