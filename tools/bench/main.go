// Command bench measures what the gate costs, and holds it to its bars.
//
// Run it with ./xcaddy.sh bench, which builds bin/caddy first:
//
//	./xcaddy.sh bench                          about ten minutes
//	./xcaddy.sh bench -quick                   a smoke test; its figures mean little
//	./xcaddy.sh bench -only proxy,latency      some of the measurements
//	./xcaddy.sh bench -only proxy -profile cpu.prof
//
// The measurements are handler, size, proxy, refusals, latency and start.
// All load the built programs on this machine's loopback, or the packages
// of the gate themselves.
//
// A figure from one machine says nothing about another, and the same
// machine is not equally fast from one minute to the next. Where the gate
// is compared with Caddy alone, both therefore run at the same time, are
// loaded in turn in several short rounds, and each round gives one ratio;
// the table shows the median ratio, with the least and the greatest.
// Beside it stands the noise: the same ratio between two processes that
// are alike. A bar that is missed by no more than the noise is neither
// held nor missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
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

// settings are what a run was asked for, and where it works.
type settings struct {
	rounds   int
	seconds  int
	accounts int // of the large store
	repeats  int // of what is not measured in rounds
	quick    bool
	only     []string
	profile  string // file for a CPU profile of the gate; "" for none

	caddy string // the built program
	dir   string // for everything that a run writes
}

// measurement gives some rows of the table.
type measurement struct {
	name    string
	wrk     bool // needs the load generator
	measure func(context.Context, *settings) ([]row, error)
}

var measurements = []measurement{
	{"handler", false, measureHandler},
	{"size", false, measureSize},
	{"proxy", true, measureProxy},
	{"refusals", true, measureRefusals},
	{"latency", false, measureLatency},
	{"start", false, measureStart},
}

// run prints the table of everything that could be measured, also when
// something could not.
func run(ctx context.Context, args []string, output, progress io.Writer) (err error) {
	s, err := parseFlags(args, progress)
	if err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp(filepath.Dir(s.caddy), "bench-"); err != nil {
		return fmt.Errorf("making a work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	machine, err := describe(ctx, s.caddy)
	if err != nil {
		return fmt.Errorf("describing the machine: %w", err)
	}
	var rows []row
	for _, m := range measurements {
		if !s.wants(m.name) {
			continue
		}
		fmt.Fprintf(progress, "measuring %s ...\n", m.name)
		more, failed := m.measure(ctx, s)
		if rows = append(rows, more...); failed != nil {
			err = errors.Join(err, fmt.Errorf("measuring %s: %w", m.name, failed))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(rows) == 0 {
		return err
	}
	return errors.Join(err, printTable(output, rows), printNotes(output, machine, s))
}

// parseFlags reads the command line.
func parseFlags(args []string, usage io.Writer) (*settings, error) {
	s := &settings{accounts: 1_000_000, repeats: 3}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&s.rounds, "rounds", 15, "rounds in which the sides are loaded in turn")
	flags.IntVar(&s.seconds, "seconds", 2, "length of one load, in seconds")
	flags.BoolVar(&s.quick, "quick", false, "a smoke test: 2 rounds of 1 second, a store of 20000 accounts")
	only := flags.String("only", "", "comma-separated `names` of measurements: "+strings.Join(names(), ", "))
	flags.StringVar(&s.profile, "profile", "", "write a CPU profile of the gate under the load of proxy to this `file`")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if s.quick {
		s.rounds, s.seconds, s.accounts, s.repeats = 2, 1, 20_000, 1
	}
	if *only != "" {
		s.only = strings.Split(*only, ",")
	}
	return s, nil
}

func names() []string {
	var list []string
	for _, m := range measurements {
		list = append(list, m.name)
	}
	return list
}

func (s *settings) wants(name string) bool { return len(s.only) == 0 || slices.Contains(s.only, name) }

// check finds out before the first minute has passed what would fail
// after it.
func (s *settings) check() (err error) {
	if s.rounds < 1 || s.seconds < 1 {
		return errors.New("rounds and seconds must be at least 1")
	}
	for _, name := range s.only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("no measurement %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	if s.profile != "" && !s.wants("proxy") {
		return errors.New("a profile needs the measurement proxy")
	}
	if s.caddy, err = filepath.Abs(filepath.Join("bin", "caddy")); err != nil {
		return err
	}
	if _, err := os.Stat(s.caddy); err != nil {
		return fmt.Errorf("no built Caddy; run ./xcaddy.sh bench: %w", err)
	}
	for _, m := range measurements {
		if m.wrk && s.wants(m.name) {
			if _, err := exec.LookPath("wrk"); err != nil {
				return errors.New("wrk is missing, which makes the load; on Debian: apt-get install wrk")
			}
		}
	}
	return nil
}
