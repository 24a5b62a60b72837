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
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// check checks the tables of the bank and of the indicative rates in a folder,
// and the parities of this program. It returns every fault found.
func check(folder string, output io.Writer) error {
	bank, content, err := readBank(filepath.Join(folder, bankFile))
	if err != nil {
		return err
	}
	var o origin
	if err := readJSON(filepath.Join(folder, bankOrigin), &o); err != nil {
		return err
	}
	var m manifest
	if err := readJSON(filepath.Join(folder, manifestFile), &m); err != nil {
		return err
	}
	table, err := os.ReadFile(filepath.Join(folder, tableFile))
	if err != nil {
		return err
	}
	var found []error
	if want := describeBank(bank, content); o != want {
		found = append(found, fmt.Errorf("%s says %v, want %v", bankOrigin, o, want))
	}
	found = append(found, checkParities(rates.Parities()), checkIndicative(table, m, bank))
	if err := errors.Join(found...); err != nil {
		return err
	}
	_, err = fmt.Fprintf(output, "%d days of the bank and %d indicative ones agree with their origin\n", o.Days, len(m.Releases))
	return err
}

func readJSON(path string, content any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(content); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// checkParities checks that each parity is of the life of its currency, has an
// address, and a base without one.
func checkParities(list []rates.Parity) error {
	var found []error
	for i, p := range list {
		known, listed := currency.Lookup(p.Code)
		if !listed || !known.ActiveOn(p.Since) || known.RetiredOn(p.Until) || p.Until.IsZero() && !known.End.IsZero() {
			found = append(found, fmt.Errorf("parity of %s: %s did not exist from %s to %s", p.Code, p.Code, p.Since, p.Until))
		}
		if i > 0 && p.Code <= list[i-1].Code && (p.Code < list[i-1].Code || list[i-1].Until.IsZero() || p.Since <= list[i-1].Until) {
			found = append(found, fmt.Errorf("parity of %s: not after the one before", p.Code))
		}
		if p.Authority == "" || !strings.HasPrefix(p.URL, "https://") {
			found = append(found, fmt.Errorf("parity of %s: no address", p.Code))
		}
		if slices.ContainsFunc(list, func(q rates.Parity) bool { return q.Code == p.Base }) {
			found = append(found, fmt.Errorf("parity of %s: its base %s is a parity", p.Code, p.Base))
		}
	}
	return errors.Join(found...)
}

// checkIndicative checks the table against its manifest and the rules.
func checkIndicative(table []byte, m manifest, bank *rates.Dataset) error {
	var found []error
	if got := hexSum(table); got != m.SHA256 {
		found = append(found, fmt.Errorf("the table's SHA-256 is %s, want %s", got, m.SHA256))
	}
	if want := newManifest(); m.License != want.License || m.Statement != want.Statement || !maps.Equal(m.Excluded, want.Excluded) ||
		m.DayRule != want.DayRule || m.SpikeRule != want.SpikeRule {
		found = append(found, errors.New("licence, statement, exclusions or rules are not the generator's"))
	}
	rows, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	if err != nil {
		return errors.Join(append(found, err)...)
	}
	if len(rows) != len(m.Releases)+1 || len(m.Releases) == 0 {
		return errors.Join(append(found, fmt.Errorf("%d lines for %d releases", len(rows), len(m.Releases)))...)
	}
	found = append(found, checkHeader(rows[0]))
	var days []day
	for i, p := range m.Releases {
		if i > 0 && p.Date <= m.Releases[i-1].Date {
			found = append(found, fmt.Errorf("%s is out of order", p.Date))
		}
		d, err := checkRow(rows[0], rows[i+1], p)
		found = append(found, checkRelease(p), err)
		if err == nil {
			found = append(found, checkValues(d, m, bank))
			days = append(days, d)
		}
	}
	for _, code := range codesOf(days) {
		for date, off := range leaveOutSpikes(seriesOf(days, code), nil, bankSeries(bank, days, code)) {
			found = append(found, fmt.Errorf("%s: %s is a spike of %s %%", date, code, off))
		}
	}
	if !slices.Equal(m.MissingDates, missing(m.Releases)) {
		found = append(found, errors.New("the missing dates are others"))
	}
	return errors.Join(found...)
}

func checkHeader(header []string) error {
	if header[0] != "date" || !slices.IsSorted(header[1:]) {
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

// checkRow checks the form of a line, and returns it as a day.
func checkRow(header, row []string, p provenance) (day, error) {
	date, err := civil.Parse(row[0])
	if err != nil || date != p.Date {
		return day{}, fmt.Errorf("line of %s where %s is expected", row[0], p.Date)
	}
	d := day{release: release{date: date}, values: make(map[currency.Code]string)}
	for i, value := range row[1:] {
		if value == "" {
			continue
		}
		code := currency.Code(header[i+1])
		if same, err := rounded(value); err != nil || same != value {
			return day{}, fmt.Errorf("%s: %s has the value %q", date, code, value)
		}
		d.values[code] = value
	}
	if len(d.values) != p.Currencies {
		return day{}, fmt.Errorf("%s: %d values, want %d", date, len(d.values), p.Currencies)
	}
	return d, nil
}

// checkValues checks that a day has only values that the rules let in.
func checkValues(d day, m manifest, bank *rates.Dataset) error {
	var found []error
	date := d.release.date
	if _, bad := m.BadDays[date]; bad {
		found = append(found, fmt.Errorf("%s is a bad day", date))
	}
	for code := range d.values {
		_, spike := m.Spikes[code][date]
		if !wanted(code, date) || hasAddress(code, date, bank) || spike {
			found = append(found, fmt.Errorf("%s: %s does not belong there", date, code))
		}
	}
	return errors.Join(found...)
}
