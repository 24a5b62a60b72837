package main

import (
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

const (
	sourceName    = "@fawazahmed0/currency-api"
	sourceURL     = "https://github.com/fawazahmed0/exchange-api"
	sourceLicense = "CC0-1.0"
	statement     = "Republished by fawazahmed0; the primary sources are undisclosed. Indicative mid-market rates, not official ones."

	integrityPrefix = "sha512-"
)

// manifest says where each line of the snapshot comes from.
type manifest struct {
	Source    string                   `json:"source"`
	URL       string                   `json:"url"`
	License   string                   `json:"license"`
	Statement string                   `json:"statement"`
	Generator string                   `json:"generator"`
	Commit    string                   `json:"generator_commit"`
	Excluded  map[currency.Code]string `json:"excluded"`
	// Withheld are single values that were judged wrong.
	Withheld map[currency.Code][]civil.Date `json:"withheld"`
	// SHA256 is of the snapshot itself.
	SHA256       string       `json:"snapshot_sha256"`
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

// describe makes the manifest of a table.
func describe(days []day, table []byte, commit string) manifest {
	m := manifest{
		Source: sourceName, URL: sourceURL, License: sourceLicense, Statement: statement,
		Generator: "tools/ratesnap", Commit: commit, Excluded: excluded(), Withheld: withheld(), SHA256: hexSum(table),
	}
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
	return m
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
