package main

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// checkFiles checks a snapshot against its manifest.
func checkFiles(tablePath, manifestPath string, output io.Writer) error {
	table, err := os.ReadFile(tablePath)
	if err != nil {
		return err
	}
	described, err := os.ReadFile(manifestPath)
	if err != nil {
		return err
	}
	var m manifest
	decoder := json.NewDecoder(bytes.NewReader(described))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return fmt.Errorf("reading %s: %w", manifestPath, err)
	}
	if err := check(table, m); err != nil {
		return fmt.Errorf("%s does not agree with %s: %w", tablePath, manifestPath, err)
	}
	_, err = fmt.Fprintf(output, "%d days from %s to %s agree with the manifest\n",
		len(m.Releases), m.Releases[0].Date, m.Releases[len(m.Releases)-1].Date)
	return err
}

// check returns every disagreement found.
func check(table []byte, m manifest) error {
	var found []error
	if got := hexSum(table); got != m.SHA256 {
		found = append(found, fmt.Errorf("the snapshot's SHA-256 is %s, want %s", got, m.SHA256))
	}
	if m.License != sourceLicense || m.Statement != statement || !maps.Equal(m.Excluded, excluded()) ||
		!maps.EqualFunc(m.Withheld, withheld(), slices.Equal) {
		found = append(found, errors.New("licence, statement, exclusions or withheld values are not the generator's"))
	}
	rows, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	if err != nil {
		return errors.Join(append(found, err)...)
	}
	if len(rows) != len(m.Releases)+1 || len(m.Releases) == 0 {
		return errors.Join(append(found, fmt.Errorf("%d lines for %d releases", len(rows), len(m.Releases)))...)
	}
	found = append(found, checkHeader(rows[0]))
	for i, release := range m.Releases {
		if i > 0 && release.Date <= m.Releases[i-1].Date {
			found = append(found, fmt.Errorf("%s is out of order", release.Date))
		}
		found = append(found, checkRelease(release), checkRow(rows[0], rows[i+1], release))
	}
	if !slices.Equal(m.MissingDates, missing(m.Releases)) {
		found = append(found, errors.New("the missing dates are others"))
	}
	return errors.Join(found...)
}

func checkHeader(header []string) error {
	if header[0] != "date" || !slices.IsSorted(header[1:]) || slices.Contains(header, string(currency.Euro)) {
		return fmt.Errorf("header %s", strings.Join(header, ","))
	}
	return nil
}

// checkRelease checks that the origin of a day is complete.
func checkRelease(p provenance) error {
	date, err := dateOf(p.Version)
	if err != nil {
		return err
	}
	digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Integrity, integrityPrefix))
	if err != nil {
		return fmt.Errorf("integrity of %s: %w", p.Version, err)
	}
	sum, err := hex.DecodeString(p.SHA256)
	if err != nil {
		return fmt.Errorf("hash of %s: %w", p.Version, err)
	}
	if date != p.Date || len(digest) != 64 || len(sum) != 32 || p.Tarball != (release{Version: p.Version}).tarball() {
		return fmt.Errorf("release %s of %s has an incomplete origin", p.Version, p.Date)
	}
	return nil
}

// checkRow checks that a line holds what the generator would have let in.
func checkRow(header, row []string, p provenance) error {
	date, err := civil.Parse(row[0])
	if err != nil || date != p.Date {
		return fmt.Errorf("line of %s where %s is expected", row[0], p.Date)
	}
	count := 0
	for i, value := range row[1:] {
		code := currency.Code(header[i+1])
		if value == "" {
			continue
		}
		count++
		if !wanted(code, date) {
			return fmt.Errorf("%s: %s had no business there", date, code)
		}
		if same, err := rounded(value); err != nil || same != value {
			return fmt.Errorf("%s: %s has the value %q", date, code, value)
		}
	}
	if count != p.Currencies {
		return fmt.Errorf("%s: %d values, want %d", date, count, p.Currencies)
	}
	return nil
}
