package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// Run runs each script of a directory against a gate of its own, whose
// operator is ada. PACKAGE is the directory of the test. The further commands
// of scripts are
//
//	[!] tollgate ARGUMENT... [<FILE]  a command with that standard input; the
//	                                  lines that it prints end without blanks
//	status NUMBER                     the exit status of the last command
//	mistake MESSAGE ARGUMENT...       a command that fails, prints that message
//	                                  on standard error, and nothing else. It
//	                                  does so also with --json
//	keep NAME REGEXP                  sets a variable to what matches of standard
//	                                  output, or to its first group
//	gate ...                          see the method gate
//
// It sets an environment variable, so that t must not be parallel.
func Run(t *testing.T, dir string) {
	t.Setenv("TOLLGATE_ACTOR", "ada")
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			s := New(t)
			testscript.Run(t, testscript.Params{
				Files: []string{file}, ContinueOnError: true,
				Setup: func(env *testscript.Env) error {
					directory, err := os.Getwd()
					env.Setenv("PACKAGE", directory)
					return err
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"tollgate": s.tollgate,
					"status": func(ts *testscript.TestScript, _ bool, args []string) {
						if strconv.Itoa(s.status) != args[0] {
							ts.Fatalf("the status is %d", s.status)
						}
					},
					"mistake": s.mistake,
					"keep":    keep,
					"gate":    func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(s.gate(t, ts, args)) },
				},
			})
		})
	}
}

var blanks = regexp.MustCompile(`(?m) +$`)

func (s *Shell) tollgate(ts *testscript.TestScript, failing bool, args []string) {
	var input string
	if last := len(args) - 1; strings.HasPrefix(args[last], "<") {
		input, args = ts.ReadFile(args[last][1:]), args[:last]
	}
	stdout, stderr, err := s.Run(context.Background(), input, args...)
	fmt.Fprint(ts.Stdout(), blanks.ReplaceAllString(stdout, ""))
	fmt.Fprint(ts.Stderr(), stderr)
	switch s.status = 0; {
	case misuse.Is(err):
		s.status = 2
	case err != nil:
		s.status = 1
	}
	if (err != nil) != failing {
		ts.Fatalf("the status is %d", s.status)
	}
}

func (s *Shell) mistake(ts *testscript.TestScript, _ bool, args []string) {
	for _, last := range [][]string{nil, {"--json"}} {
		stdout, stderr, err := s.Run(context.Background(), "", append(args[1:len(args):len(args)], last...)...)
		if err == nil || !strings.Contains(stderr, args[0]) || stdout != "" {
			ts.Fatalf("got %v\nstdout: %s\nstderr: %s", err, stdout, stderr)
		}
	}
}

func keep(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("standard output does not match %s", args[1])
	}
	ts.Setenv(args[0], found[len(found)-1])
}

// gate does something to the gate of a script:
//
//	advance DURATION                   moves its clock
//	config JSON|FILE                   puts controltest.Config in force, changed
//	take ACCOUNT ENDPOINT COST [KEY]   counts a call
//	record ACCOUNT JSON [FROM]         notes a recent call, from an address
//	refused DAYS JSON                  counts refused calls that many days ago
//	break, start, mend                 its store fails, is being opened, works
//	urls                               prints what commands have asked for
//	hides TEXT...                      no part of a text is in its store, its
//	                                   logs or its events
func (s *Shell) gate(t *testing.T, ts *testscript.TestScript, args []string) error {
	switch args[0] {
	case "advance":
		d, err := time.ParseDuration(args[1])
		s.Advance(d)
		return err
	case "config":
		config, text := controltest.Config(), args[1]
		if !strings.HasPrefix(text, "{") {
			text = ts.ReadFile(text)
		}
		err := json.Unmarshal([]byte(text), &config)
		s.Configure(t, config)
		return err
	case "take":
		cost, err := strconv.ParseInt(args[3], 10, 64)
		call := store.Call{Account: args[1], Endpoint: args[2], Key: strings.Join(args[4:], ""), Day: s.Policy().Calendar.At(s.Now()).Day, At: s.Now(), Cost: cost}
		if ok, takeErr := s.Opened().Take(context.Background(), call, nil, nil); !ok || takeErr != nil {
			return fmt.Errorf("taking a call: %t, %w", ok, takeErr)
		}
		return err
	case "record":
		record := store.Record{Account: args[1], At: s.Now()}
		err := json.Unmarshal([]byte(args[2]), &record)
		if len(args) > 3 {
			record.From = netip.MustParseAddr(args[3])
		}
		s.Opened().Record(record)
		return err
	case "refused":
		days, err := strconv.Atoi(args[1])
		row := store.Refused{Day: s.Policy().Calendar.At(s.Now().AddDate(0, 0, -days)).Day}
		return errors.Join(err, json.Unmarshal([]byte(args[2]), &row), s.Opened().AddRefused(context.Background(), []store.Refused{row}))
	case "break":
		s.Break(errors.New("no store"))
	case "start":
		s.Break(store.ErrOpening)
	case "mend":
		s.Break(nil)
	case "urls":
		fmt.Fprint(ts.Stdout(), s.URLs())
	case "hides":
		return s.hides(t, args[1:])
	default:
		return fmt.Errorf("unknown command: gate %v", args)
	}
	return nil
}

func (s *Shell) hides(t *testing.T, texts []string) error {
	entries, err := s.Opened().ListEntries(context.Background(), book.EntryFilter{}, store.EntryID{}, 1000)
	if err != nil {
		return err
	}
	known, err := json.Marshal([]any{storetest.Dump(t, s.Opened().Book), entries, s.Published(), s.Log()})
	for _, text := range texts {
		for _, part := range []string{text[len(text)-45:][:10], text[len(text)-30:][:10], text[len(text)-10:]} {
			if bytes.Contains(known, []byte(part)) {
				return errors.New("the gate has a part of " + text)
			}
		}
	}
	return err
}
