package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const (
	snapshotPath = "../../upstream/rates/indicative.csv"
	manifestPath = "../../upstream/rates/INDICATIVE.json"
)

// The snapshot that the upstream embeds is the one its manifest describes.
func TestEmbeddedSnapshot(t *testing.T) {
	t.Parallel()
	if err := checkFiles(snapshotPath, manifestPath, t.Output()); err != nil {
		t.Error(err)
	}
}

// Each edit of snapshot or manifest is found, also where the hash of the
// whole was brought up to date with it.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		edit       func(table []byte, m *manifest) []byte
	}{
		{"a changed digit", "SHA-256", func(table []byte, _ *manifest) []byte {
			return bytes.Replace(table, []byte("1.95583,"), []byte("1.95584,"), 1)
		}},
		{"a lost line", "lines for", rehashed(func(table []byte) []byte {
			return table[:bytes.LastIndexByte(table[:len(table)-1], '\n')+1]
		})},
		{"a currency that is none", "no business", rehashed(func(table []byte) []byte {
			return bytes.Replace(table, []byte(",ZWG\n"), []byte(",ZZZ\n"), 1)
		})},

		{"an exponent", "has the value", rehashed(func(table []byte) []byte {
			return bytes.Replace(table, []byte(",1.95583,"), []byte(",195583e-5,"), 1)
		})},
		{"a removed value", "values, want", rehashed(func(table []byte) []byte {
			return bytes.Replace(table, []byte(",1.95583,"), []byte(",,"), 1)
		})},

		{"a forged origin", "incomplete origin", func(table []byte, m *manifest) []byte {
			m.Releases[3].Tarball = "other.tgz"
			return table
		}},
		{"a hidden gap", "missing dates", func(table []byte, m *manifest) []byte {
			m.MissingDates = m.MissingDates[1:]
			return table
		}},
		{"another licence", "licence", func(table []byte, m *manifest) []byte {
			m.License = "MIT"
			return table
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			table, m := readFiles(t)
			err := check(test.edit(table, &m), m)
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

func readFiles(t *testing.T) ([]byte, manifest) {
	t.Helper()
	table, err := os.ReadFile(snapshotPath)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(manifestPath)
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return table, m
}
