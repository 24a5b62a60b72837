// Package feed is the currency API as a whole: rates from a data directory
// that are kept fresh, the API over them, and how fresh they are.
package feed

import (
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/option"
)

// None is the setting of rates for a site without the currency API.
const None = "none"

// Setting is where the rates come from.
func Setting(value *string) option.Setting {
	return option.Setting{
		Name: "rates", Value: value, Default: ecb.BaseURL, Argument: "<url>|embedded|none",
		Usage: "`URL` of the ECB's files, embedded to fetch nothing, or none to leave out the currency API",
	}
}

// ParseURL returns the URL to fetch rates from by a setting, empty to fetch
// nothing. It is the ECB's for None: another site can have the currency API.
func ParseURL(setting string) (string, error) {
	switch setting {
	case "embedded":
		return "", nil
	case None:
		return ecb.BaseURL, nil
	}
	u, err := url.Parse(setting)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", &option.Error{Option: "rates", Want: "an HTTP or HTTPS URL, embedded or none"}
	}
	return setting, nil
}

// Feed is the rates with a clock.
type Feed struct {
	*ecb.Provider
	Now func() time.Time
}

// Open reads the embedded rates and those in the directory of the upstream.
// Run fetches newer ones from the URL, if there is one.
func Open(directory, from string, logger *slog.Logger) (*Feed, error) {
	bank, err := ecb.Embedded()
	if err != nil {
		return nil, err
	}
	indicative, err := rates.Indicative()
	if err != nil {
		return nil, err
	}
	provider, err := ecb.Open(ecb.Options{
		Indicative: indicative,
		Bank:       bank,
		Directory:  filepath.Join(directory, "rates"),
		URL:        from,
		Logger:     logger,
	})
	return &Feed{provider, time.Now}, err
}

// API returns the currency API of a site.
func (f *Feed) API(site *url.URL) (*api.API, error) {
	currencies, err := api.New(f.Provider, site, f.Now)
	if err != nil {
		return nil, fmt.Errorf("preparing API: %w", err)
	}
	return currencies, nil
}

// Missing is how many publications of the bank the rates lack.
func (f *Feed) Missing() int { return f.Missed(f.Now()) }

// age is the age of the bank's newest rates: newer rates of another source
// must not hide that the bank's are old. AgeDays counts calendar days in UTC; 3
// is usual on a Monday morning. Missed counts publications that are not there.
// Live is true if rates are fetched, Failing if the last attempt failed.
// CheckedAt is the last success.
type age struct {
	Date      civil.Date `json:"date"`
	AgeDays   int        `json:"age_days"`
	Missed    int        `json:"missed"`
	Live      bool       `json:"live"`
	Failing   bool       `json:"failing"`
	CheckedAt *time.Time `json:"checked_at"`
}

// Health is the age of the rates, for the health check.
func (f *Feed) Health() any { return f.age() }

func (f *Feed) age() age {
	now, status := f.Now(), f.Status()
	a := age{
		Date:    status.Newest,
		AgeDays: int(civil.Of(now.UTC()) - status.Newest),
		Missed:  f.Missed(now),
		Live:    status.Live,
		Failing: status.Err != nil,
	}
	if !status.CheckedAt.IsZero() {
		a.CheckedAt = &status.CheckedAt
	}
	return a
}

// Metrics has the age of the rates.
func (f *Feed) Metrics() []prometheus.Collector {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		gauge("currency_rates_age_days", "Days since the day of the bank's newest rates.", func() int { return f.age().AgeDays }),
		gauge("currency_rates_missed_publications", "Publications of the bank that should be there and are not.", f.Missing),
	}
}
