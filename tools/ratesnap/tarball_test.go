package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
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

func TestSnapshotOfTarballs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	releases := list(t, folder, map[string]string{
		"2026.1.2": pack(t, folder, "2026.1.2",
			`{"date":"2026-01-02","eur":{"usd":1.5,"xau":2.9e-4,"bgn":1.95583,"jpy":0,"kes":151,"eur":1}}`),
		"2025.12.31": pack(t, folder, "2025.12.31",
			`{"date":"2025-12-31","eur":{"usd":1.17234567890123,"bgn":1.95583,"one":3,"1inch":5,"syp":130,"dem":1.95583,"gbp":-1,"kes":150.10}}`),
		"2026.1.1": "sha512-absent",
	})
	out, described := filepath.Join(folder, "snapshot.csv"), filepath.Join(folder, "SNAPSHOT.json")
	var printed bytes.Buffer
	args := []string{"-releases", releases, "-in", folder, "-out", out, "-manifest", described}
	if err := run(args, &printed); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	// The lev lives to the end of 2025; "one", "1inch" and the mark are no
	// currencies of the day; the rest is out of bounds or excluded.
	want := "date,BGN,KES,USD,XAU\n" +
		"2025-12-31,1.95583,150.1,1.1723456789,\n" +
		"2026-01-02,,151,1.5,0.00029\n"
	if string(table) != want {
		t.Errorf("got\n%s\nwant\n%s", table, want)
	}
	if got, want := printed.String(), "USD: 2025-12-31 1.1723456789, 2026-01-02 1.5\n"; got != want {
		t.Errorf("jumps: got %q, want %q", got, want)
	}
	if err := run([]string{"-check", "-out", out, "-manifest", described}, &printed); err != nil {
		t.Errorf("checking what was just made: %v", err)
	}
	var m manifest
	data, err := os.ReadFile(described)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.MissingDates) != 1 || m.MissingDates[0].String() != "2026-01-01" {
		t.Errorf("missing dates: got %v", m.MissingDates)
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
			folder := t.TempDir()
			sum := pack(t, folder, "2026.1.2", test.rates)
			if test.integrity != "" {
				sum = test.integrity
			}
			releases := list(t, folder, map[string]string{"2026.1.2": sum})
			out := filepath.Join(folder, "snapshot.csv")
			err := run([]string{"-releases", releases, "-in", folder, "-out", out, "-manifest", out + ".json"}, t.Output())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("a snapshot was written")
			}
		})
	}
}
