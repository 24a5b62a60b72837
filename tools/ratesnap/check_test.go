package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// embedded is the folder of the tables that the upstream embeds.
const embedded = "../../upstream/currency/rates"

// The embedded tables are those that their origins describe.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	if err := run([]string{"check", "-dir", embedded}, t.Output()); err != nil {
		t.Error(err)
	}
}

// The origin of the bank's file is of this file.
func TestCheckFindsAnotherFileOfTheBank(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(embedded)); err != nil {
		t.Fatal(err)
	}
	origin := filepath.Join(folder, bankOrigin)
	edited := bytes.Replace(read(t, origin), []byte(`"days": `), []byte(`"days": 1`), 1)
	if err := os.WriteFile(origin, edited, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"check", "-dir", folder}, t.Output()); err == nil || !strings.Contains(err.Error(), "eurofxref-hist.json says") {
		t.Errorf("got %v", err)
	}
}

// Each edit of table or manifest is found, also where the hash of the
// whole was brought up to date with it.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		edit       func(table []byte, m *manifest) []byte
	}{
		{"a changed digit", "SHA-256", func(table []byte, _ *manifest) []byte {
			return bytes.Replace(table, []byte(",1"), []byte(",2"), 1)
		}},
		{"a lost line", "lines for", rehashed(func(table []byte) []byte {
			return table[:bytes.LastIndexByte(table[:len(table)-1], '\n')+1]
		})},
		{"a currency that is none", "ZZZ does not belong there", rehashed(func(table []byte) []byte {
			return bytes.Replace(table, []byte(",ZWG\n"), []byte(",ZZZ\n"), 1)
		})},
		{"a value of the bank", "2025-12-31: USD does not belong there", set("2025-12-31", "USD", "1.175")},
		{"a parity", "XCG does not belong there", rehashed(func(table []byte) []byte {
			return bytes.Replace(table, []byte(",XAG,"), []byte(",XCG,"), 1)
		})},
		{"a spike", "2026-08-20: KES is a spike of", set("2026-08-20", "KES", "180")},
		{"a weekend that the bank contradicts", "2025-12-27: USD is a spike of", set("2025-12-27", "USD", "1.21")},
		{"a spike of the manifest", "KES does not belong there", func(table []byte, m *manifest) []byte {
			m.Spikes["KES"] = map[civil.Date]string{civil.New(2026, 8, 20): "2.10"}
			return table
		}},
		{"a bad day of the manifest", "2026-08-20 is a bad day", func(table []byte, m *manifest) []byte {
			m.BadDays[civil.New(2026, 8, 20)] = ""
			return table
		}},
		{"an exponent", "has the value", set("2026-08-20", "KES", "15e1")},
		{"a removed value", "values, want", func(table []byte, m *manifest) []byte {
			m.Releases[3].Currencies++
			return table
		}},
		{"a forged origin", "incomplete origin", func(table []byte, m *manifest) []byte {
			m.Releases[3].Tarball = "other.tgz"
			return table
		}},
		{"a hidden gap", "missing dates", func(table []byte, m *manifest) []byte {
			m.MissingDates = m.MissingDates[1:]
			return table
		}},
		{"another order of currencies", "header date,ALL,AFN,", rehashed(func(table []byte) []byte {
			return bytes.Replace(table, []byte("date,AFN,ALL,"), []byte("date,ALL,AFN,"), 1)
		})},
		{"another order of days", "2024-03-02 is out of order", func(table []byte, m *manifest) []byte {
			m.Releases[0], m.Releases[1] = m.Releases[1], m.Releases[0]
			lines := bytes.SplitAfter(table, []byte("\n"))
			lines[1], lines[2] = lines[2], lines[1]
			table = bytes.Join(lines, nil)
			m.SHA256 = hexSum(table)
			return table
		}},
		// Without a table nothing else is checked.
		{"another licence", "licence", func(_ []byte, m *manifest) []byte {
			m.License = "MIT"
			return nil
		}},
		{"another statement", "statement", func(_ []byte, m *manifest) []byte {
			m.Statement = ""
			return nil
		}},
		{"another exclusion", "exclusions", func(_ []byte, m *manifest) []byte {
			m.Excluded["XDR"] = "unknown"
			return nil
		}},
		{"another rule of days", "rules", func(_ []byte, m *manifest) []byte {
			m.DayRule = ""
			return nil
		}},
		{"another rule of spikes", "rules", func(_ []byte, m *manifest) []byte {
			m.SpikeRule = ""
			return nil
		}},
	}
	bank, _, err := readBank(filepath.Join(embedded, bankFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var m manifest
			if err := readJSON(filepath.Join(embedded, manifestFile), &m); err != nil {
				t.Fatal(err)
			}
			table := test.edit(read(t, filepath.Join(embedded, tableFile)), &m)
			err := checkIndicative(table, m, bank)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// rehashed is an edit of the table that keeps the manifest's hash right.
func rehashed(edit func([]byte) []byte) func([]byte, *manifest) []byte {
	return func(table []byte, m *manifest) []byte {
		table = edit(table)
		m.SHA256 = hexSum(table)
		return table
	}
}

// set is an edit of one value that keeps hash and count right.
func set(date, code, value string) func([]byte, *manifest) []byte {
	return func(table []byte, m *manifest) []byte {
		lines := strings.Split(string(table), "\n")
		column := slices.Index(strings.Split(lines[0], ","), code)
		for i, line := range lines {
			fields := strings.Split(line, ",")
			if fields[0] != date {
				continue
			}
			if fields[column] == "" {
				m.Releases[i-1].Currencies++
			}
			fields[column] = value
			lines[i] = strings.Join(fields, ",")
		}
		return rehashed(func([]byte) []byte { return []byte(strings.Join(lines, "\n")) })(table, m)
	}
}

func TestParitiesRefused(t *testing.T) {
	t.Parallel()
	parity := func(edit func(*rates.Parity)) rates.Parity {
		p, _ := rates.ParityOn("BZD", civil.New(2026, 1, 1))
		edit(&p)
		return p
	}
	same := parity(func(*rates.Parity) {})
	tests := []struct {
		name, want string
		list       []rates.Parity
	}{
		{"no currency", "did not exist", []rates.Parity{parity(func(p *rates.Parity) { p.Code = "ZZZ" })}},
		{"before its currency", "did not exist", []rates.Parity{parity(func(p *rates.Parity) { p.Since = civil.New(1973, 12, 31) })}},
		{"after its currency", "did not exist", []rates.Parity{parity(func(p *rates.Parity) { p.Code, p.Until = "HRK", civil.New(2023, 1, 1); p.Since = civil.New(1999, 1, 4) })}},
		{"without an end", "did not exist", []rates.Parity{parity(func(p *rates.Parity) { p.Code, p.Since = "HRK", civil.New(1999, 1, 4) })}},
		{"two at once", "not after the one before", []rates.Parity{same, same}},
		{"no order", "not after the one before", []rates.Parity{same, parity(func(p *rates.Parity) { p.Code = "BBD" })}},
		{"no authority", "no address", []rates.Parity{parity(func(p *rates.Parity) { p.Authority = "" })}},
		{"no page", "no address", []rates.Parity{parity(func(p *rates.Parity) { p.URL = "http://example.com" })}},
		{"a base with a parity", "its base BBD is a parity", []rates.Parity{parity(func(p *rates.Parity) { p.Code = "BBD" }), parity(func(p *rates.Parity) { p.Base = currency.Code("BBD") })}},
	}
	for _, test := range tests {
		if err := checkParities(test.list); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}
