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

// update rewrites what the golden files expect. Read what it has written: it is
// what an operator reads.
var update = flag.Bool("update", false, "rewrite the results in testdata")

const dashes = "----------\n"

// TestAdapt compares each file of testdata/adapt: a Caddyfile, a line of dashes,
// and the JSON of the app tollgate, or of the whole configuration if it begins
// with the member apps.
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
