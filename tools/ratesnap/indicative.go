package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

const (
	tableFile    = "indicative.csv"
	manifestFile = "INDICATIVE.json"

	sourceName    = "@fawazahmed0/currency-api"
	sourceURL     = "https://github.com/fawazahmed0/exchange-api"
	sourceLicense = "CC0-1.0"
	statement     = "Republished by fawazahmed0; the primary sources are undisclosed. Indicative mid-market rates, not official ones."

	integrityPrefix = "sha512-"
)

// manifest says where each line of the table comes from, and what of its
// releases is not there.
type manifest struct {
	Source    string                   `json:"source"`
	URL       string                   `json:"url"`
	License   string                   `json:"license"`
	Statement string                   `json:"statement"`
	Generator string                   `json:"generator"`
	Excluded  map[currency.Code]string `json:"excluded"`
	DayRule   string                   `json:"day_rule"`
	// BadDays are left out by that rule.
	BadDays   map[civil.Date]string `json:"bad_days"`
	SpikeRule string                `json:"spike_rule"`
	// Spikes are the values left out by that rule, and how many percent they
	// are from the median.
	Spikes map[currency.Code]map[civil.Date]string `json:"spikes"`
	// SHA256 is of the table.
	SHA256       string       `json:"indicative_sha256"`
	Releases     []provenance `json:"releases"`
	MissingDates []civil.Date `json:"missing_dates"`
}

// provenance is the release that the line of one day was read from.
type provenance struct {
	Date      civil.Date `json:"date"`
	Version   string     `json:"version"`
	Tarball   string     `json:"tarball"`
	Integrity string     `json:"integrity"`
	// SHA256 is of the one file of the tarball that was read.
	SHA256     string `json:"eur_min_json_sha256"`
	Currencies int    `json:"currencies"`
}

// makeIndicative makes the table and its manifest from the tarballs.
func makeIndicative(folder, releases, tarballs string) error {
	bank, _, err := readBank(filepath.Join(folder, bankFile))
	if err != nil {
		return err
	}
	list, err := readReleases(releases)
	if err != nil {
		return fmt.Errorf("reading the releases: %w", err)
	}
	days, err := readTarballs(tarballs, list)
	if err != nil {
		return fmt.Errorf("reading the tarballs: %w", err)
	}
	m := newManifest()
	days = m.sift(days, bank)
	table := writeTable(days)
	m.describe(days, table)
	if err := os.WriteFile(filepath.Join(folder, tableFile), table, 0o644); err != nil {
		return err
	}
	return writeJSON(filepath.Join(folder, manifestFile), m)
}

func newManifest() *manifest {
	return &manifest{
		Source: sourceName, URL: sourceURL, License: sourceLicense, Statement: statement, Generator: "tools/ratesnap",
		Excluded: excluded(), DayRule: dayRule, SpikeRule: spikeRule,
		BadDays: make(map[civil.Date]string), Spikes: make(map[currency.Code]map[civil.Date]string),
	}
}

// sift returns the days without the bad ones, without the values that have a
// better source, and without spikes. The manifest notes faults.
func (m *manifest) sift(releases []day, bank *rates.Dataset) []day {
	var good, file []day
	for _, d := range releases {
		if reason := fault(d, bank); reason != "" {
			m.BadDays[d.release.date] = reason
			continue
		}
		good = append(good, d)
		d.values = maps.Clone(d.values)
		maps.DeleteFunc(d.values, func(code currency.Code, _ string) bool {
			return hasAddress(code, d.release.date, bank)
		})
		file = append(file, d)
	}
	for _, code := range codesOf(file) {
		spikes := leaveOutSpikes(seriesOf(file, code), seriesOf(good, code), bankSeries(bank, file, code))
		if len(spikes) == 0 {
			continue
		}
		m.Spikes[code] = spikes
		for _, d := range file {
			if _, out := spikes[d.release.date]; out {
				delete(d.values, code)
			}
		}
	}
	return file
}

// describe notes where the table comes from.
func (m *manifest) describe(days []day, table []byte) {
	m.SHA256 = hexSum(table)
	for _, d := range days {
		m.Releases = append(m.Releases, provenance{
			Date:       d.release.date,
			Version:    d.release.Version,
			Tarball:    d.release.tarball(),
			Integrity:  d.release.Integrity,
			SHA256:     d.sum,
			Currencies: len(d.values),
		})
	}
	m.MissingDates = missing(m.Releases)
}

// missing returns the days between the first and the last release that have
// none.
func missing(releases []provenance) []civil.Date {
	var dates []civil.Date
	for i := 1; i < len(releases); i++ {
		for date := releases[i-1].Date + 1; date < releases[i].Date; date++ {
			dates = append(dates, date)
		}
	}
	return dates
}
