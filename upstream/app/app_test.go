package app_test

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/app"
)

func newOptions(t *testing.T, gate *gatetest.Gate, transport http.RoundTripper) app.Options {
	t.Helper()
	control, err := client.New("http://"+gate.Address, gatetest.Secret, client.WithTransport(transport))
	if err != nil {
		t.Fatal(err)
	}
	return app.Options{Directory: t.TempDir(), Control: control, Logger: slog.New(slog.DiscardHandler)}
}

// An App that cannot start leaves nothing open.
func TestOpenFails(t *testing.T) {
	gate := gatetest.Start(t)
	options := newOptions(t, gate, &http.Transport{DisableKeepAlives: true})
	goroutines := runtime.NumGoroutine()
	for name, c := range map[string]struct {
		edit func(o *app.Options)
		want string
	}{
		"data":     {func(o *app.Options) { o.Directory = "" }, `invalid directory: want a directory for the data`},
		"rates":    {func(o *app.Options) { o.Rates = "ftp://u:hunter2@x" }, `invalid rates: want an HTTP or HTTPS URL, embedded or none`},
		"no URL":   {func(o *app.Options) { o.Rates = "off" }, `invalid rates: want an HTTP or HTTPS URL, embedded or none`},
		"control":  {func(o *app.Options) { o.Control = nil }, `invalid control: want a client of the control API`},
		"logger":   {func(o *app.Options) { o.Logger = nil }, `invalid logger: want a logger`},
		"database": {func(o *app.Options) { o.Database = "mysql://x" }, `invalid database: want a URL that begins with postgres://`},
	} {
		o := options
		c.edit(&o)
		a, err := app.Open(t.Context(), o)
		if err == nil {
			t.Fatal(name, errors.Join(errors.New("it started"), a.Close()))
		}
		if err.Error() != c.want {
			t.Errorf("%s: got %q, want %q", name, err, c.want)
		}
	}
	if open := openFiles(t, options.Directory); len(open) != 0 {
		t.Errorf("still open: %v", open)
	}
	awaitGoroutines(t, goroutines)
}

// openFiles returns the open files of this process below a directory.
func openFiles(t *testing.T, directory string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Fatal("listing open files:", err)
	}
	var open []string
	for _, link := range links {
		if file, err := os.Readlink(link); err == nil && strings.HasPrefix(file, directory) {
			open = append(open, file)
		}
	}
	return open
}

// awaitGoroutines waits until no more than want goroutines are left.
func awaitGoroutines(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), want, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestSignUpPlan: one setting says whether strangers can sign up, and for
// which plan.
func TestSignUpPlan(t *testing.T) {
	for setting, want := range map[string]string{"": "", "off": "", "on": "free", "free": "free", "starter": "starter"} {
		if got := app.SignUpPlan(setting); got != want {
			t.Errorf("%q: got %q, want %q", setting, got, want)
		}
	}
}
