package caddymodule_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule"
)

var (
	// outer are the modules that a message of Caddy names before the mistake.
	outer = regexp.MustCompile(`^(?:.*: )?(?:parsing caddyfile tokens for '\w+'|provision [\w.]+): `)
	place = regexp.MustCompile(`Caddyfile:\d+`)
	// remedy is a word in front of what is allowed or what to do.
	remedy = regexp.MustCompile(`(?i)\b(use|write|mean|remove|put|set|name|list|raise|add|from \d+\w*|are|none of|such as|at least|up to|first at|takes|must|requires|fill|build|duplicate|belong|want|shorter than|conflicts with|browsers|verifies)\b`)
)

// TestMistakes checks what an operator reads about each mistake of
// testdata/mistakes.txt. A section there has a title, and, in lines with a bar, the
// Caddyfile around its mistakes, or that of the section before. The lines after a
// mistake are the error of the adapter or of caddy validate, or the findings of
// caddy tollgate check.
func TestMistakes(t *testing.T) {
	table, err := filepath.Abs("testdata/mistakes.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var section, around, mistake, want, before, result string
	var all, places, remedies int
	check := func() {
		got := complaint(t, strings.Replace(around, "…\n", mistake, 1))
		all++
		if place.MatchString(got) {
			places++
		}
		if remedy.MatchString(got) {
			remedies++
		}
		if got != want && !*update || got == "=> accepted\n" {
			t.Errorf("%s: got\n%swant\n%sfor\n%s", section, got, want, mistake)
		}
		result += mistake + got
		mistake, want = "", ""
	}
	for line := range strings.Lines(string(text) + "\n") {
		switch {
		case strings.HasPrefix(line, "=> "):
			want += line
			continue
		case want != "":
			check()
		}
		switch {
		case line == "\n":
			result += line
		case strings.HasPrefix(line, "# "):
			section = strings.TrimSpace(line[2:])
			result += line
		case strings.HasPrefix(line, "| "):
			if !strings.HasPrefix(before, "| ") {
				around = ""
			}
			around += line[2:]
			result += line
		default:
			mistake += line
		}
		before = line
	}
	t.Logf("of %d mistakes, %d messages have file and line, and %d the next step", all, places, remedies)
	if *update {
		if err := os.WriteFile(table, []byte(strings.TrimSuffix(result, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// complaint returns what is said about a Caddyfile.
func complaint(t *testing.T, text string) string {
	t.Helper()
	if err := os.WriteFile("Caddyfile", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := adapt(text)
	if err == nil {
		err = validate(string(config))
	}
	if err != nil {
		return "=> " + strings.ReplaceAll(outer.ReplaceAllString(err.Error(), ""), "\n", "\n=> ") + "\n"
	}
	findings, err := caddymodule.Findings("Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) == 0 {
		return "=> accepted\n"
	}
	return "=> warning: " + strings.Join(findings, "\n=> warning: ") + "\n"
}
