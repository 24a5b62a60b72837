package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestOperations runs each command of docs/operations.md after the
// installation, and then of docs/customers.md, in their order. The tests of the
// directory packaging install.
func TestOperations(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation(stack.CalmZone())
	must(t, err)
	day := time.Now().In(zone).Format(time.DateOnly)
	_, commands, _ := strings.Cut(read(t, filepath.Join(stack.Root(), "docs", "operations.md")), "\n## First day\n")
	commands += read(t, filepath.Join(stack.Root(), "docs", "customers.md"))
	commands = strings.NewReplacer("2026-11-20", day, "2026-11", day[:len("2006-01")], "127.0.0.1:8081", "$TOLLGATE_CONTROL").Replace(commands)

	s := stack.Start(t, stack.Shipped(t))
	dir := filepath.Dir(s.Caddyfile)
	must(t, os.Symlink(filepath.Join(stack.Root(), "bin"), filepath.Join(dir, "bin")))
	restored := stack.Shipped(t, "{$TOLLGATE_DATA:./data}/gate", "./restored")
	must(t, os.WriteFile(filepath.Join(dir, "restored.Caddyfile"), []byte(restored), 0o600))
	call := func(key string, times int) {
		token := newKey(t, s, "acc_1", key).Token
		for range times {
			if response, body := s.Call(http.MethodGet, "/api/convert/USD/1/EUR", token, nil); response.StatusCode != http.StatusOK {
				t.Fatalf("a call: got %d %s", response.StatusCode, body)
			}
		}
	}
	ran, proved, credited := 0, false, false
	for _, block := range blocks.FindAllStringSubmatch(commands, -1) {
		language, text := block[1], block[2]
		switch {
		case language != "sh":
			continue
		case strings.Contains(text, "$TOKEN"):
			leaked := newKey(t, s, "acc_1", "leaked")
			s.Set("KEY", leaked.ID)
			s.Set("TOKEN", leaked.Token)
			s.Set("LAST", leaked.Token[len(leaked.Token)-4:])
		case strings.Contains(text, "worked.jsonl"):
			s.Run(`zcat -f data/log/access*.log* | jq -c 'select(.call.account == "acc_1" and .call.cost > 0) | {id: .request_id, cost: 0}' | tail -1 >worked.jsonl`)
			before, _ := s.Shell("caddy tollgate usage export --month " + day[:len("2006-01")] + " | grep acc_1,convert")
			s.Run(text)
			s.Run(text)
			after, _ := s.Shell("caddy tollgate usage export --month " + day[:len("2006-01")] + " | grep acc_1,convert")
			credited = strings.Contains(before, "acc_1,convert,3,1,") && strings.Contains(after, "acc_1,convert,3,2,")
			if !credited {
				t.Errorf("credits of a call that was cut off, twice: before %s, after %s", before, after)
			}
			ran++
			continue
		case strings.Contains(text, "usage credit"):
			call("failed", 1)
		case strings.Contains(text, `.call.account == "acc_1"`):
			proved = true
			call("disputed", 2)
			eventually(t, "the log that proves the calls", func() error {
				out, err := s.Shell(text)
				if !strings.Contains(out, "convert,3\n") || !strings.Contains(out, day+",acc_1,convert,3,") {
					return fmt.Errorf("the commands print (%v)\n%s", err, out)
				}
				return err
			})
			ran++
			continue
		}
		s.Run(text)
		ran++
	}
	if ran < 15 || !proved || !credited {
		t.Errorf("ran %d blocks of commands, want all of the pages; the disputed bill is among them: %t", ran, proved)
	}
}
