package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// download writes the embedded file of the bank with an edit.
func download(t *testing.T, edit func(table string) string) string {
	t.Helper()
	archive, err := zip.OpenReader(filepath.Join(embedded, bankFile))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	file, err := archive.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	var table, edited bytes.Buffer
	if _, err := table.ReadFrom(file); err != nil {
		t.Fatal(err)
	}
	writer := zip.NewWriter(&edited)
	out, err := writer.Create(archive.File[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte(edit(table.String()))); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "download.zip")
	if err := os.WriteFile(path, edited.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A newer file with a correction takes the place of the old one, byte for
// byte, and its origin follows.
func TestTakeBank(t *testing.T) {
	t.Parallel()
	folder := tables(t)
	newer := download(t, func(table string) string {
		header, lines, _ := strings.Cut(table, "\n")
		return header + "\n2026-04-14,1.1700" + strings.Repeat(",N/A", strings.Count(header, ",")-2) + ",\n" +
			strings.Replace(lines, "2026-04-13,1.1684,", "2026-04-13,1.1685,", 1)
	})
	if err := run([]string{"ecb", "-dir", folder, "-in", newer}, t.Output()); err != nil {
		t.Fatal(err)
	}
	want := read(t, newer)
	if !bytes.Equal(read(t, filepath.Join(folder, bankFile)), want) {
		t.Error("the file is not the download")
	}
	var o origin
	if err := readJSON(filepath.Join(folder, bankOrigin), &o); err != nil {
		t.Fatal(err)
	}
	if o.Last.String() != "2026-04-14" || o.Days != 6984 || o.Currencies != 41 || o.Values != 217556 || o.SHA256 != hexSum(want) {
		t.Errorf("got %+v", o)
	}
}

func TestBankRefused(t *testing.T) {
	t.Parallel()
	replace := func(old, changed string) func(string) string {
		return func(table string) string { return strings.Replace(table, old, changed, 1) }
	}
	tests := []struct {
		name, want string
		edit       func(string) string
	}{
		{"a lost day", "lacks 1999-01-04", func(table string) string { return table[:strings.Index(table, "1999-01-04")] }},
		{"a lost value", "USD of 2026-04-13 was 1.1684 and is 0", replace("2026-04-13,1.1684,", "2026-04-13,N/A,")},
		{"a jump", "USD of 2026-04-13 was 1.1684 and is 11.684", replace("2026-04-13,1.1684,", "2026-04-13,11.684,")},
		{"no number", "malformed", replace("2026-04-13,1.1684,", "2026-04-13,1.1684e0,")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := tables(t)
			err := run([]string{"ecb", "-dir", folder, "-in", download(t, test.edit)}, t.Output())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if !bytes.Equal(read(t, filepath.Join(folder, bankFile)), read(t, filepath.Join(embedded, bankFile))) {
				t.Error("the old file is not there any more")
			}
		})
	}
}
