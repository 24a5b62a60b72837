package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// Parse refuses invalid settings, without their passwords, and opens nothing.
func TestParse(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for name, c := range map[string]struct {
		settings app.Settings
		want     string
	}{
		"defaults":  {app.Settings{}, ""},
		"rates":     {app.Settings{Rates: "ftp://u:hunter2@x"}, `invalid rates: want an HTTP or HTTPS URL, embedded or none`},
		"no URL":    {app.Settings{Rates: "off"}, `invalid rates: want an HTTP or HTTPS URL, embedded or none`},
		"database":  {app.Settings{Database: "mysql://u:hunter2@x"}, `invalid database: want a URL that begins with postgres://`},
		"address":   {app.Settings{Address: "ftp://x"}, `invalid address "ftp://x": want http://host or https://host`},
		"time zone": {app.Settings{Timezone: "Local"}, `invalid timezone "Local": want an IANA zone such as Europe/Berlin`},
		"signup":    {app.Settings{SignUp: "yes"}, `invalid signup "yes": want off, on or the name of a plan`},
		"name":      {app.Settings{Name: " "}, `invalid name " ": want 1 to 40 characters, without control characters`},
	} {
		if c.settings.Data == "" {
			c.settings.Data = data
		}
		_, err := c.settings.Parse()
		if got := strings.TrimPrefix(fmt.Sprint(err), "<nil>"); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data directory is there: %v", err)
	}
	c, err := app.Settings{}.Parse()
	if err != nil || c.Address.String() != "http://localhost:8080" || c.Timezone != "UTC" || c.SignUp != "" ||
		!filepath.IsAbs(c.Directory) || !strings.HasSuffix(c.Directory, "/data/upstream") || c.RatesURL != ecb.BaseURL || c.NoRates {
		t.Errorf("the defaults are %+v, %v", c, err)
	}
}

// An App that cannot open its database leaves nothing open.
func TestOpenFails(t *testing.T) {
	gate := gatetest.Start(t)
	control, err := client.New("http://"+gate.Address, gatetest.Secret, client.WithTransport(&http.Transport{DisableKeepAlives: true}))
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	config, err := app.Settings{Data: data}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config.Directory, nil, 0o600); err != nil { // a file is no directory
		t.Fatal(err)
	}
	goroutines := runtime.NumGoroutine()
	if a, err := app.Open(t.Context(), config, control, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal(errors.Join(errors.New("it started"), a.Close()))
	}
	if open := openFiles(t, data); len(open) != 0 {
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
		if c, err := (app.Settings{SignUp: setting}).Parse(); err != nil || c.SignUp != want {
			t.Errorf("%q: got %q, %v; want %q", setting, c.SignUp, err, want)
		}
	}
}

// TestRatesURL: one setting says where rates come from.
func TestRatesURL(t *testing.T) {
	for setting, want := range map[string]app.Config{
		"":                  {RatesURL: ecb.BaseURL},
		"embedded":          {},
		"none":              {RatesURL: ecb.BaseURL, Site: web.Site{NoRates: true}},
		"https://x.example": {RatesURL: "https://x.example"},
	} {
		if c, err := (app.Settings{Rates: setting}).Parse(); err != nil || c.RatesURL != want.RatesURL || c.NoRates != want.NoRates {
			t.Errorf("%q: got %q and %t, %v; want %q and %t", setting, c.RatesURL, c.NoRates, err, want.RatesURL, want.NoRates)
		}
	}
}
