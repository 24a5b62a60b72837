package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pack makes a release tarball with that rates file and returns its
// integrity string.
func pack(t *testing.T, folder, version, rates string) string {
	t.Helper()
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(compressed)
	for _, file := range []struct{ name, content string }{
		{"package/package.json", `{"name":"x"}`},
		{ratesFile, rates},
	} {
		header := &tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content))}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(file.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	name := release{Version: version}.tarball()
	if err := os.WriteFile(filepath.Join(folder, name), buffer.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := sha512.Sum512(buffer.Bytes())
	return integrityPrefix + base64.StdEncoding.EncodeToString(digest[:])
}

// list writes the registry's answer for those releases.
func list(t *testing.T, folder string, integrity map[string]string) string {
	t.Helper()
	var releases []release
	for version, sum := range integrity {
		releases = append(releases, release{Version: version, Integrity: sum})
	}
	data, err := json.Marshal(releases)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "releases.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tables makes a folder of tables with the bank's embedded file.
func tables(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "ecb"), os.DirFS(filepath.Join(embedded, "ecb"))); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Each release shows one rule.
func TestIndicativeOfTarballs(t *testing.T) {
	t.Parallel()
	folder := tables(t)
	releases := make(map[string]string)
	for version, rates := range map[string]string{
		// The bank has the dollar of that day, a parity the lev. "one",
		// "1inch" and the mark are no currencies of the day; the rest is
		// excluded or out of bounds.
		"2025.12.31": `{"date":"2025-12-31","eur":{"usd":1.17234567890123,"bgn":1.95,"one":3,"1inch":5,"syp":130,"dem":1.95583,"gbp":-1,"kes":150.10}}`,
		// A holiday: the bank has nothing, a parity still has the dirham.
		"2026.1.1": `{"date":"2026-01-01","eur":{"usd":1.17234567890123,"aed":4.31,"xau":2.9e-4,"bgn":1.95583,"jpy":0,"kes":151,"eur":1}}`,
		// Too far from the bank's dollar of 2026-01-02, which was 1.1721.
		"2026.1.3": `{"date":"2026-01-03","eur":{"usd":1.19,"kes":151}}`,
		// The vector contradicts itself: the dirham is 3.6725 to the dollar.
		"2026.1.4": `{"date":"2026-01-04","eur":{"usd":1.1721,"aed":4.33,"kes":151}}`,
		// The shilling jumps and comes back.
		"2026.1.9":  `{"date":"2026-01-09","eur":{"kes":155}}`,
		"2026.1.10": `{"date":"2026-01-10","eur":{"usd":1.1652,"kes":152}}`,
		"2026.1.11": `{"date":"2026-01-11","eur":{"kes":151}}`,
	} {
		releases[version] = pack(t, folder, version, rates)
	}
	releases["2026.1.2"] = "sha512-absent"
	args := []string{"indicative", "-dir", folder, "-in", folder, "-releases", list(t, folder, releases)}
	if err := run(args, t.Output()); err != nil {
		t.Fatal(err)
	}
	table := read(t, filepath.Join(folder, tableFile))
	want := "date,KES,USD,XAU\n" +
		"2025-12-31,150.1,,\n" +
		"2026-01-01,151,1.1723456789,0.00029\n" +
		"2026-01-09,,,\n" +
		"2026-01-10,152,1.1652,\n" +
		"2026-01-11,151,,\n"
	if string(table) != want {
		t.Errorf("got\n%s\nwant\n%s", table, want)
	}
	if err := run([]string{"check", "-dir", folder}, t.Output()); err != nil {
		t.Errorf("checking what was just made: %v", err)
	}
	var m manifest
	if err := readJSON(filepath.Join(folder, manifestFile), &m); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(m.BadDays), "map[2026-01-03:1.53 % from the ECB's values 2026-01-04:0.59 % from the parities]"; got != want {
		t.Errorf("bad days: got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(m.Spikes), "map[KES:map[2026-01-09:2.65]]"; got != want {
		t.Errorf("spikes: got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(m.MissingDates), "[2026-01-02 2026-01-03 2026-01-04 2026-01-05 2026-01-06 2026-01-07 2026-01-08]"; got != want {
		t.Errorf("missing dates: got %s, want %s", got, want)
	}
}

func TestTarballsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, rates, integrity, want string
	}{
		{"tampered", `{"date":"2026-01-02","eur":{"usd":1.5}}`, "sha512-AAAA", "integrity is"},
		{"another day", `{"date":"2026-01-03","eur":{"usd":1.5}}`, "", "rates of 2026-01-03"},
		{"not JSON", `<html>`, "", "invalid character"},
		{"text for a number", `{"date":"2026-01-02","eur":{"usd":"NaN"}}`, "", "invalid number literal"},
		{"too large", `{"date":"2026-01-02","eur":{}}` + strings.Repeat(" ", maxRatesFile), "", "bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := tables(t)
			sum := pack(t, folder, "2026.1.2", test.rates)
			if test.integrity != "" {
				sum = test.integrity
			}
			releases := list(t, folder, map[string]string{"2026.1.2": sum})
			err := run([]string{"indicative", "-dir", folder, "-in", folder, "-releases", releases}, t.Output())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(folder, tableFile)); err == nil {
				t.Error("a table was written")
			}
		})
	}
}
