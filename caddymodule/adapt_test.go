package caddymodule_test

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

// TestAdapt holds each file of testdata/adapt to what it says: a
// Caddyfile, a line of dashes, and the JSON of the app tollgate (of the
// whole configuration if it begins with the member apps), or, line by
// line, what the error says. File and line are part of that.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the golden files: %d found, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".caddyfiletest")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, found := strings.Cut(string(golden), dashes)
			if !found {
				t.Fatal("the file has no line of dashes")
			}
			config, err := adapt(input)
			if strings.HasPrefix(want, "{") {
				if err != nil {
					t.Fatalf("got error %v", err)
				}
				compareGolden(t, file, input, config, want)
				return
			}
			if err == nil {
				t.Fatalf("got no error, want %s", want)
			}
			for line := range strings.Lines(want) {
				if line = strings.TrimSpace(line); line == "" || !strings.Contains(err.Error(), line) {
					t.Errorf("got error\n%v\nwant in it\n%s", err, line)
				}
			}
		})
	}
}

func compareGolden(t *testing.T, file, input string, config []byte, want string) {
	t.Helper()
	var got, wanted any
	if err := json.Unmarshal(config, &got); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(strings.Join(strings.Fields(want), ""), `{"apps"`) {
		got = got.(map[string]any)["apps"].(map[string]any)["tollgate"]
	}
	if *update {
		text, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(input+dashes+string(text)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatalf("reading the golden JSON: %v", err)
	}
	if !reflect.DeepEqual(got, wanted) {
		text, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
