package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestControlPage runs the commands of docs/control.md in their order, and
// compares what they print with the page.
func TestControlPage(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation(stack.CalmZone())
	must(t, err)
	s := stack.Start(t, stack.Shipped(t,
		"secret {env.TOLLGATE_SECRET}", "secret {env.TOLLGATE_SECRET}\n\t\tintrospection_secret {env.TOLLGATE_INTROSPECTION_SECRET}\n\t\ttake_secret {env.TOLLGATE_TAKE_SECRET}\n\t\tforeign_keys on"),
		"TOLLGATE_TAKE_SECRET=the secret of an end-to-end test that takes calls", "TOLLGATE_INTROSPECTION_SECRET=the secret of an end-to-end test that introspects")
	dir, now := filepath.Dir(s.Caddyfile), time.Now().In(zone)
	must(t, os.WriteFile(filepath.Join(dir, ".curlrc"), []byte("silent\n"), 0o600))
	page := strings.NewReplacer(
		"2027-01-01", fmt.Sprintf("%d-01-01", now.Year()+1), "2026-12-31", fmt.Sprintf("%d-12-31", now.Year()),
		"--month 2026-11", "--month "+now.Format("2006-01"), "http://127.0.0.1:8081", s.Control(),
	).Replace(read(t, filepath.Join(stack.Root(), "docs", "control.md")))

	files := []string{"accounts.jsonl", "keys.jsonl"}
	for _, block := range blocks.FindAllStringSubmatch(page, -1) {
		if block[1] == "json" {
			must(t, os.WriteFile(filepath.Join(dir, files[0]), []byte(block[2]), 0o600))
			files = files[1:]
		}
	}
	before := map[string]func(){
		"usage export": func() { useMonth(t, s) },
		"explain":      func() { useUp(t, s) },
	}
	ids := map[string]string{} // of the keys of this gate, by those of the page
	for _, block := range blocks.FindAllStringSubmatch(page, -1) {
		if block[1] != "console" {
			continue
		}
		for _, step := range strings.Split("\n"+block[2], "\n$ ")[1:] {
			line, want := cutCommand(step)
			for words, prepare := range before {
				if strings.Contains(line, "caddy tollgate "+words) {
					prepare()
				}
			}
			for documented, id := range ids {
				line = strings.ReplaceAll(line, documented, id)
			}
			got, err := s.Shell(line)
			if fails := strings.Contains(want, "Error: "); (err != nil) != fails || !patternOf(want, changing).MatchString(got) {
				t.Errorf("%s\nprints (%v)\n%s\nwant\n%s", line, err, got, want)
			}
			if strings.Contains(line, "key create") {
				ids[keyIDs[len(ids)]] = keyID.FindString(got)
				if len(ids) == 1 {
					s.Set("TOKEN", token.FindString(got))
				}
			}
		}
	}
}

// keyIDs are the ids of the keys on the page, in the order of their creation.
var keyIDs = []string{"key_n4dAKp4zFyCKDFji", "key_w81TzLm0RkPQw3xV"}

var (
	keyID = regexp.MustCompile(`key_\w{16}`)
	token = regexp.MustCompile(`tgk_[0-9A-Za-z]{49}`)
)

// cutCommand cuts a command, which a backslash continues on the next line,
// from its output.
func cutCommand(step string) (line, output string) {
	for {
		more, rest, _ := strings.Cut(step, "\n")
		line, step = line+more+"\n", rest
		if !strings.HasSuffix(more, `\`) {
			return line, step
		}
	}
}

// useMonth makes the calls that the page exports.
func useMonth(t *testing.T, s *stack.Stack) {
	t.Helper()
	token := newKey(t, s, "acc_1", "month").Token
	for range 3 {
		if response, body := s.Call(http.MethodGet, "/api/convert/USD/1/EUR", token, nil); response.StatusCode != http.StatusOK {
			t.Fatalf("a call: got %d %s", response.StatusCode, body)
		}
	}
	const batch = `{"conversions":[{"from":"USD","to":"EUR","amount":1}]}`
	if response, body := s.Call(http.MethodPost, "/api/convert/batch", newKey(t, s, "acc_2", "month").Token, strings.NewReader(batch)); response.StatusCode != http.StatusOK {
		t.Fatalf("a batch: got %d %s", response.StatusCode, body)
	}
}

// useUp uses up the limit of the plan, without the overrides of the page.
func useUp(t *testing.T, s *stack.Stack) {
	t.Helper()
	s.Tollgate("limit", "clear", "acc_1", "all")
	token := newKey(t, s, "acc_1", "many").Token
	for range 1000 {
		response, body := s.Call(http.MethodGet, "/api/convert/USD/1/EUR", token, nil)
		if response.StatusCode == http.StatusTooManyRequests {
			return
		}
		if response.StatusCode != http.StatusOK {
			t.Fatalf("a call: got %d %s", response.StatusCode, body)
		}
	}
	t.Fatal("no call is refused")
}
