package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"upstream": func() { os.Exit(Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }})
}

// Each script runs against a gate of its own. The program is built as it
// ships. With test --long it is the test itself, with its race detector, which
// takes many times as long to start.
func TestScripts(t *testing.T) {
	t.Parallel()
	var program string
	if !storetest.Long() {
		program = build(t)
	}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			runScript(t, file, program)
		})
	}
}

// build builds the program, and returns its directory.
func build(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(directory, "upstream"), "..")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	return directory
}

// runScript runs one script with the program in a directory, or the test if
// there is none, and with these further commands:
//
//	gate stop                       nothing listens at the control address
//	gate fail, gate mend            the gate fails from now on, or no longer
//	gate logins NUMBER              waits until the gate has so many live login
//	                                tokens
//	gate audit ACTION REASON [WHO]  the newest entry of the audit log has these
//	await URL [TEXT]                waits until the URL answers 200, with a text
//	[!] post URL FILE STATUS        posts a JSON file as the gate of
//	                                rates.example does and prints the answer
func runScript(t *testing.T, file, program string) {
	gate := gatetest.Start(t)
	testscript.Run(t, testscript.Params{
		Files: []string{file},
		Setup: func(env *testscript.Env) error {
			if program != "" {
				env.Setenv("PATH", program+string(filepath.ListSeparator)+env.Getenv("PATH"))
			}
			// Else each command with the race detector ends a second later.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("TOLLGATE_CONTROL", gate.Address)
			env.Setenv("TOLLGATE_SECRET", gatetest.Secret)
			env.Setenv("TOLLGATE_DATA", filepath.Join(env.WorkDir, "data"))
			env.Setenv("TOLLGATE_UPSTREAM", "127.0.0.1:"+stack.FreePorts(t, 1)[0])
			env.Setenv("TOLLGATE_RATES", "embedded")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"gate":  func(ts *testscript.TestScript, _ bool, args []string) { gateCommand(ts, gate, args) },
			"await": await,
			"get":   get,
			"post":  func(ts *testscript.TestScript, _ bool, args []string) { post(t, ts, args) },
		},
	})
}

// gateCommand does what a script wants with the gate.
func gateCommand(ts *testscript.TestScript, gate *gatetest.Gate, args []string) {
	switch args[0] {
	case "stop":
		gate.Stop()
	case "fail":
		gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
	case "mend":
		gate.Fail(nil)
	case "logins":
		awaitLogins(ts, gate, args[1])
	case "audit":
		log, err := gate.Client.Audit(context.Background(), api.AuditQuery{Order: "desc", Limit: 1})
		ts.Check(err)
		if len(log.Audit) != 1 || log.Audit[0].Action != args[1] || log.Audit[0].Reason != args[2] || len(args) > 3 && log.Audit[0].Actor.ID != args[3] {
			ts.Fatalf("got %+v, want %v", log.Audit, args[1:])
		}
	default:
		ts.Fatalf("unknown command: gate %v", args)
	}
}

func awaitLogins(ts *testscript.TestScript, gate *gatetest.Gate, want string) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	page, err := gate.Client.Accounts(ctx, api.AccountQuery{})
	ts.Check(err)
	for {
		live := 0
		for _, a := range page.Accounts {
			logins, err := gate.Client.Keys(ctx, a.Account, client.KeyFilter{Kind: "login"})
			ts.Check(err)
			live += len(logins)
		}
		if strconv.Itoa(live) == want {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
		ts.Check(err)
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			body, err := io.ReadAll(answer.Body)
			ts.Check(errors.Join(err, answer.Body.Close()))
			if answer.StatusCode == http.StatusOK && strings.Contains(string(body), strings.Join(args[1:], " ")) {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Fatalf("%s does not answer 200 with %v", args[0], args[1:])
}

// get prints what a page says.
func get(ts *testscript.TestScript, _ bool, args []string) {
	answer, err := http.Get(args[0])
	ts.Check(err)
	_, err = io.Copy(ts.Stdout(), answer.Body)
	ts.Check(errors.Join(err, answer.Body.Close()))
	if answer.StatusCode != http.StatusOK {
		ts.Fatalf("%s answers %s", args[0], answer.Status)
	}
}

func post(t *testing.T, ts *testscript.TestScript, args []string) {
	request, err := http.NewRequest(http.MethodPost, args[0], bytes.NewReader([]byte(ts.ReadFile(args[1]))))
	ts.Check(err)
	request.Header.Set("Content-Type", "application/json")
	purpose := assertion.Call
	if strings.HasSuffix(args[0], "/login") {
		purpose = assertion.Login
	}
	request.Header.Set(assertion.Header, gatetest.Assert(t, "rates.example", purpose))
	answer, err := http.DefaultClient.Do(request)
	ts.Check(err)
	body, err := io.ReadAll(answer.Body)
	ts.Check(err)
	ts.Check(answer.Body.Close())
	_, err = fmt.Fprintf(ts.Stdout(), "%s\n", body)
	ts.Check(err)
	if got, want := strconv.Itoa(answer.StatusCode), args[2]; got != want {
		ts.Fatalf("got status %s, want %s: %s", got, want, body)
	}
}
