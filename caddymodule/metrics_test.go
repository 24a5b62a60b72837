package caddymodule_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestMetricsDocumented: the table in docs/operations.md has each metric with
// its labels, and no other.
func TestMetricsDocumented(t *testing.T) {
	start(t, setup{})
	active := caddy.ActiveContext()
	families, err := active.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, family := range families {
		if name := family.GetName(); regexp.MustCompile(`^caddy_tollgate_`).MatchString(name) {
			labels := ""
			for i, label := range family.GetMetric()[0].GetLabel() {
				if i > 0 {
					labels += ","
				}
				labels += label.GetName()
			}
			if labels != "" {
				name += "{" + labels + "}"
			}
			got[name] = true
		}
	}
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(caddy_tollgate_[^`]*)` \\|").FindAllStringSubmatch(string(text), -1) {
		want[row[1]] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, documented %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
