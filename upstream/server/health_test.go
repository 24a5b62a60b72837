package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/feed"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

// ratesHealth is the part of the health check about rates.
type ratesHealth struct {
	Date      string
	AgeDays   int `json:"age_days"`
	Missed    int
	Live      bool
	Failing   bool
	CheckedAt *time.Time `json:"checked_at"`
}

// The health check says when the bank was asked with success, and whether the
// last try failed.
func TestHealthOfLiveRates(t *testing.T) {
	t.Parallel()
	indicative, err := rates.Indicative()
	if err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		http.ServeFile(w, r, "../currency/rates/ecb/testdata/eurofxref-daily.xml")
	}))
	defer bank.Close()
	asked := time.Date(2026, 4, 13, 18, 0, 0, 0, time.UTC)
	provider, err := ecb.Open(ecb.Options{Indicative: indicative, URL: bank.URL, Timeout: time.Minute, Now: func() time.Time { return asked }})
	if err != nil {
		t.Fatal(err)
	}
	current := &feed.Feed{Provider: provider, Now: func() time.Time { return asked.Add(time.Hour) }}
	s := newSite(t, func(c *server.Config) { c.Rates = current.Health })
	for _, failing := range []bool{false, true} {
		broken.Store(failing)
		if err := provider.Refresh(t.Context()); (err != nil) != failing {
			t.Fatal(err)
		}
		var got struct{ Rates ratesHealth }
		if err := json.Unmarshal(s.do(http.MethodGet, "/healthz", nil).Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if at := got.Rates.CheckedAt; at == nil || !at.Equal(asked) || !got.Rates.Live || got.Rates.Failing != failing || got.Rates.Date != "2026-04-13" {
			t.Errorf("failing %v: got %+v", failing, got.Rates)
		}
	}
}

// The rates are as old as the bank's, although there are newer indicative ones.
// One missed publication is visible when it should have come, also if nothing is
// fetched.
func TestHealth(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	bank, err := rates.ReadTable("Date,USD\n2026-04-13,1.1684\n", rates.SourceECB)
	if err != nil {
		t.Fatal(err)
	}
	indicative, err := rates.ReadTable("Date,USD\n2026-09-29,1.16\n", rates.SourceIndicative)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := ecb.Open(ecb.Options{Bank: bank, Indicative: indicative})
	if err != nil {
		t.Fatal(err)
	}
	current := &feed.Feed{Provider: provider, Now: func() time.Time { return time.Unix(now.Load(), 0).In(time.FixedZone("", 9*60*60)) }} // UTC counts
	s := newSite(t, func(c *server.Config) {
		c.Rates, c.Metrics = current.Health, current.Metrics()
		c.Gate = func() string { return "secret_refused" }
	})
	check := func(at string, age, missed int) {
		t.Helper()
		clock, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		now.Store(clock.Unix())
		w := s.do(http.MethodGet, "/healthz", nil)
		var got struct {
			Status, Gate string
			Rates        ratesHealth
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := ratesHealth{Date: "2026-04-13", AgeDays: age, Missed: missed}
		if w.Code != http.StatusOK || got.Status != "ok" || got.Gate != "secret_refused" || got.Rates != want {
			t.Errorf("at %s: got %d %s, want %+v", at, w.Code, w.Body, want)
		}
		metrics := s.do(http.MethodGet, "/metrics", nil)
		for _, want := range []string{
			fmt.Sprintf("\ncurrency_rates_age_days %d\n", age),
			fmt.Sprintf("\ncurrency_rates_missed_publications %d\n", missed),
		} {
			if metrics.Code != http.StatusOK || !strings.Contains(metrics.Body.String(), want) {
				t.Errorf("at %s: got %d %s, want %q", at, metrics.Code, metrics.Body, want)
			}
		}
	}
	check("2026-04-13T23:59:59Z", 0, 0)
	check("2026-04-14T16:59:59Z", 1, 0)
	check("2026-04-14T17:00:00Z", 1, 1)
	check("2026-11-26T12:00:00Z", 227, 161)
	if w := s.do(http.MethodHead, "/healthz", nil); w.Code != http.StatusOK {
		t.Errorf("HEAD: got %d", w.Code)
	}

	s.gate.Stop()
	if w := s.do(http.MethodGet, "/healthz", nil); w.Code != http.StatusOK {
		t.Errorf("without the gate: got %d, want 200: it may be the gate that asks", w.Code)
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	w := s.do(http.MethodGet, "/healthz", nil)
	checkRefusal(t, w, http.StatusServiceUnavailable, "unavailable")
	if !strings.Contains(w.Body.String(), `"status":"unavailable"`) || !strings.Contains(w.Body.String(), `"age_days":227`) {
		t.Errorf("got %s", w.Body)
	}
}

// A site without rates has the time of the last copy of the accounts.
func TestMetricsOfCopies(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	p, err := portal.Open(t.Context(), portal.Place{Directory: directory}, nil, func(string, func(context.Context)) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s := newSite(t, func(c *server.Config) { c.Metrics = p.Metrics() })
	for _, want := range []int64{0, 1_800_000_000} {
		if want > 0 {
			at := time.Unix(want, 0)
			if err := errors.Join(database.NoteCopy(directory), os.Chtimes(filepath.Join(directory, "accounts.db.copied"), at, at)); err != nil {
				t.Fatal(err)
			}
		}
		w := s.do(http.MethodGet, "/metrics", nil)
		value := -1.0
		_, text, _ := strings.Cut(w.Body.String(), "\ntollgate_accounts_backup_last_success_timestamp_seconds ")
		if _, err := fmt.Sscan(text, &value); err != nil || value != float64(want) || strings.Contains(w.Body.String(), "rates") {
			t.Errorf("got %v (%v) in %s, want %d and no rates", value, err, w.Body, want)
		}
	}
}
