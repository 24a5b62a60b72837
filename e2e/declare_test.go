package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	tokens "github.com/caddy-tollgate/tollgate/internal/token"
)

// declaring returns a Caddyfile that also has lines in the block of its option
// tollgate.
func declaring(t *testing.T, caddyfile, lines string) string {
	t.Helper()
	before, after, found := strings.Cut(caddyfile, "\tplan free\n")
	if !found {
		t.Fatal("the Caddyfile has no plan free")
	}
	return before + "\tplan free\n" + lines + after
}

// declaredKey is what key new prints.
type declaredKey struct{ Token, Line string }

func makeKey(t *testing.T, s *stack.Stack, name string) declaredKey {
	t.Helper()
	return decode[declaredKey](t, s.Tollgate("key", "new", "--name", name, "--json"))
}

// TestKilledWhileItDeclares kills Caddy while a load declares 10,000 accounts. The
// next start completes it: each account is as the file has it.
func TestKilledWhileItDeclares(t *testing.T) {
	t.Parallel()
	const accounts, rounds = 10_000, 3
	s := stack.StartGate(t, stack.Shipped(t))
	plain := stack.Shipped(t)
	amid := 0
	for round := range rounds {
		plan := []string{"starter", "business"}[round%2]
		var lines strings.Builder
		for i := range accounts {
			sum := sha256.Sum256(fmt.Append(nil, "token ", round/2, i))
			fmt.Fprintf(&lines, "account shop-%d %s {\nlabel \"round %d\"\nkey ci sha256:%x\n}\n", i, plan, round, sum)
		}
		s.Configure(declaring(t, plain, lines.String()))
		before := strings.Count(s.Log(), "accounts of the configuration are in the store")
		loaded := make(chan error, 1)
		go func() { loaded <- s.Reload() }()
		eventually(t, "a load that writes", func() error {
			list, err := s.Try("caddy", "", "tollgate", "account", "list", "--search", "round "+fmt.Sprint(round), "--json")
			if err == nil && !strings.Contains(list, "shop-") && len(loaded) == 0 {
				err = fmt.Errorf("no account of round %d", round)
			}
			return err
		})
		time.Sleep(rand.N(50 * time.Millisecond))
		s.KillCaddy()
		<-loaded
		if strings.Count(s.Log(), "accounts of the configuration are in the store") == before {
			amid++
		}
		s.StartCaddy()
		control, err := client.New(s.Control(), stack.Secret)
		must(t, err)
		all, err := client.All(func(after string) ([]api.Account, *string, error) {
			page, err := control.Accounts(t.Context(), api.AccountQuery{Search: "shop-", After: after, Limit: 1000})
			return page.Accounts, page.Next, err
		})
		must(t, err)
		if len(all) != accounts {
			t.Fatalf("round %d: got %d accounts", round, len(all))
		}
		for _, a := range all {
			if !a.Declared || a.Plan != plan || a.Label != fmt.Sprint("round ", round) {
				t.Fatalf("round %d: got %+v", round, a)
			}
		}
		for range 100 {
			i := rand.IntN(accounts)
			id, sum := fmt.Sprint("shop-", i), sha256.Sum256(fmt.Append(nil, "token ", round/2, i))
			keys, err := control.Keys(t.Context(), id, client.KeyFilter{})
			must(t, err)
			if len(keys) != 1 || keys[0].ID != tokens.IDOf(id, sum) || !keys[0].Declared {
				t.Fatalf("round %d: %s has the keys %+v", round, id, keys)
			}
		}
	}
	t.Logf("killed amid %d of %d loads", amid, rounds)
	if amid == 0 {
		t.Error("each kill came after the load")
	}
}

// TestGatesDeclare: of two gates with different files, the one that was loaded last
// decides for both. Both say that they differ.
func TestGatesDeclare(t *testing.T) {
	t.Parallel()
	g := startGates(t, patient...)
	files, keys := make([]string, 2), make([]declaredKey, 2)
	for i, s := range g.all[:2] {
		text, err := os.ReadFile(s.Caddyfile)
		must(t, err)
		keys[i] = makeKey(t, s, "ci")
		files[i] = declaring(t, string(text), "account shop business {\n"+keys[i].Line+"\n}\n")
	}
	for round := range 4 {
		last := round % 2
		g.all[last].Configure(files[last])
		must(t, g.all[last].Reload())
		for i, s := range g.all {
			for k, want := range map[int]string{last: "200", 1 - last: "401 invalid_token"} {
				if got := ask(s, keys[k].Token); got != want {
					t.Errorf("round %d: gate %d answers %s to the key of gate %d, want %s", round, i+1, got, k+1, want)
				}
			}
		}
	}
	for i, s := range g.all[:2] {
		if !strings.Contains(s.Log(), "had declared other accounts and keys") {
			t.Errorf("the load of gate %d says nothing", i+1)
		}
	}
	eventually(t, "a warning of the gate that does not decide", func() error {
		if !strings.Contains(g.all[0].Log(), "another gate has declared other accounts and keys, which are in force") {
			return fmt.Errorf("the log of gate 1 has none")
		}
		return nil
	})
}

// TestGateThatCannotLoad: a load of a gate that fails brings no key back that
// another gate has revoked since.
func TestGateThatCannotLoad(t *testing.T) {
	t.Parallel()
	g := startGates(t, patient...)
	text, err := os.ReadFile(g.all[0].Caddyfile)
	must(t, err)
	key := makeKey(t, g.all[0], "ci")
	with, without := declaring(t, string(text), "account shop business {\n"+key.Line+"\n}\n"), declaring(t, string(text), "account shop business\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	for i, file := range []string{with, without} {
		g.all[i].Configure(file)
		must(t, g.all[i].Reload())
	}
	for _, file := range []string{with, string(text)} {
		g.all[0].Configure(file + fmt.Sprintf("\nhttp://:%d {\n\tbind 127.0.0.1\n}\n", taken.Addr().(*net.TCPAddr).Port))
		if err := g.all[0].Reload(); err == nil {
			t.Error("the configuration was loaded")
		}
		for i, s := range g.all {
			if got := ask(s, key.Token); got != "401 invalid_token" {
				t.Errorf("gate %d answers %s to a revoked key", i+1, got)
			}
		}
	}
}

// TestDeclareWithoutRedis: while redis does not answer, a load with accounts fails,
// and one without them takes the keys away later. A gate that never declared any
// says nothing about that.
func TestDeclareWithoutRedis(t *testing.T) {
	t.Parallel()
	g := startGates(t, "timeout 500ms", "timeout 2s")
	text, err := os.ReadFile(g.all[0].Caddyfile)
	must(t, err)
	key := makeKey(t, g.all[0], "ci")
	file := declaring(t, string(text), "account shop business {\n"+key.Line+"\n}\n")
	g.all[0].Configure(file)
	must(t, g.all[0].Reload())
	if got := ask(g.all[1], key.Token); got != "200" {
		t.Fatalf("got %s", got)
	}
	g.proxy.Refuse()
	g.proxy.Cut()
	g.all[0].Configure(strings.Replace(file, "shop business", "shop starter", 1))
	if err := g.all[0].Reload(); err == nil {
		t.Error("a file with accounts was loaded")
	}
	for _, s := range g.all[:2] {
		s.Configure(declaring(t, string(text), "plan spare\n"))
		must(t, s.Reload())
	}
	const failed = "cannot apply the accounts and keys of the file"
	if n := strings.Count(g.all[0].Log(), failed); n != 1 {
		t.Errorf("the gate that declared logs it %d times", n)
	}
	must(t, g.proxy.Resume())
	for i, s := range g.all {
		eventually(t, "a revoked key", func() error {
			if got := ask(s, key.Token); got != "401 invalid_token" {
				return fmt.Errorf("gate %d answers %s", i+1, got)
			}
			return nil
		})
	}
	for i, s := range g.all {
		if i > 0 && strings.Contains(s.Log(), failed) {
			t.Errorf("gate %d logs it", i+1)
		}
	}
}

// TestKeyNew: the line that key new prints opens the API with its token. A file
// with the token in the place of the hash is refused, and no message shows it.
func TestKeyNew(t *testing.T) {
	t.Parallel()
	plain := stack.Shipped(t)
	s := stack.Start(t, plain)
	key := makeKey(t, s, "build server")
	s.Configure(declaring(t, plain, "account shop business {\n"+key.Line+"\n}\n"))
	must(t, s.Reload())
	eventually(t, "a call with the key", func() error { // the connection may be one of the configuration before
		if got := ask(s, key.Token); got != "200" {
			return errors.New(got)
		}
		return nil
	})
	for want, args := range map[string][]string{
		"business  active, declared ": {"account", "list"}, "…, declared ": {"key", "list", "shop"},
	} {
		if out := s.Tollgate(args...); !strings.Contains(out, want) {
			t.Errorf("%v: got %s", args, out)
		}
	}
	if _, err := s.Try("caddy", "", "tollgate", "account", "set", "shop", "--plan", "starter"); err == nil || !strings.Contains(err.Error(), "The configuration file declares this") {
		t.Errorf("got %v", err)
	}
	sum := tokens.Foreign(key.Token)
	s.Configure(declaring(t, plain, "account shop business {\n"+strings.ReplaceAll(key.Line, "sha256:"+hex.EncodeToString(sum[:]), key.Token)+"\n}\n"))
	for name, load := range map[string]func() error{
		"reload": s.Reload,
		"validate": func() error {
			_, err := s.Try("caddy", "", "validate", "--config", s.Caddyfile, "--adapter", "caddyfile")
			return err
		},
		"check": func() error {
			_, err := s.Try("caddy", "", "tollgate", "check", "--config", s.Caddyfile)
			return err
		},
	} {
		if err := load(); err == nil || strings.Contains(err.Error(), key.Token) || !strings.Contains(err.Error(), "not the token") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if response, _ := s.Call(http.MethodGet, ratesPath, key.Token, nil); response.StatusCode != http.StatusOK {
		t.Errorf("after a load that failed: got %d", response.StatusCode)
	}
}
