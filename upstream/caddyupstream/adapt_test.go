package caddyupstream_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// update rewrites the JSON of the golden files. Errors are written by
// hand: they are what an operator reads.
var update = flag.Bool("update", false, "rewrite the JSON in testdata/adapt")

const dashes = "----------\n"

// TestAdapt compares each file of testdata/adapt: a Caddyfile, a line of
// dashes, and the JSON of the apps, or, line by line, what the error says.
// File and line are part of that.
func TestAdapt(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the golden files: %d found, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			t.Parallel()
			input, want, found := strings.Cut(read(t, file), dashes)
			if !found {
				t.Fatal("the file has no line of dashes")
			}
			config, err := adapt(input)
			if !strings.HasPrefix(want, "{") {
				for line := range strings.Lines(want) {
					if line = strings.TrimSpace(line); err == nil || line == "" || !strings.Contains(err.Error(), line) {
						t.Errorf("got error\n%v\nwant in it\n%s", err, line)
					}
				}
				return
			}
			if err != nil {
				t.Fatalf("got error %v", err)
			}
			compareGolden(t, file, input, config, want)
		})
	}
}

func compareGolden(t *testing.T, file, input string, config []byte, want string) {
	t.Helper()
	var got, wanted any
	if err := json.Unmarshal(config, &got); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(got, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(input+dashes+string(text)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatalf("reading the golden JSON: %v", err)
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
