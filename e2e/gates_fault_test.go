package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

const (
	// faultLimit is the limit of an account while something fails.
	faultLimit = 1200
	// callersPerGate call each gate at the same time.
	callersPerGate = 8
	callers        = 3 * callersPerGate
)

// tally counts the answers to the callers of all gates.
type tally struct {
	mu          sync.Mutex
	served      int          // 200
	used        int          // 429
	unavailable map[int]int  // 503, by gate
	broken      map[int]int  // no answer, by gate
	wrong       []string     // anything else
	back        map[int]bool // gates that answered after the fault
}

// count counts the answer of a gate.
func (a *tally) count(gate int, response *http.Response, text string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.broken[gate]++
	case response.StatusCode == http.StatusOK:
		a.served++
	case response.StatusCode == http.StatusTooManyRequests:
		a.used++
	case response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") == "5" && strings.Contains(text, `"code":"unavailable"`):
		a.unavailable[gate]++
	default:
		a.wrong = append(a.wrong, fmt.Sprintf("gate %d: %d %s", gate+1, response.StatusCode, text))
	}
}

// soFar returns how many calls were served, and how many got 503 by gate.
func (a *tally) soFar() (served int, unavailable map[int]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.served, maps.Clone(a.unavailable)
}

// sum adds the counts of all gates.
func sum(counts map[int]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// fault is something that fails during calls, and is over when during
// returns.
type fault struct {
	name   string
	during func(t *testing.T, g *gates, a *tally)
	// breaks is whether the first gate may close connections.
	breaks bool
}

// untilUnavailable waits until each gate refused calls.
func untilUnavailable(t *testing.T, g *gates, a *tally) {
	t.Helper()
	_, before := a.soFar()
	eventually(t, "each gate to answer with 503", func() error {
		_, now := a.soFar()
		for gate := range g.all {
			if now[gate] < before[gate]+callersPerGate {
				return fmt.Errorf("gate %d does not", gate+1)
			}
		}
		return nil
	})
}

// must fails a test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var faults = []fault{
	{"a gate is killed", func(_ *testing.T, g *gates, _ *tally) {
		g.all[0].KillCaddy()
		g.all[0].StartCaddy()
	}, true},
	{"redis is killed", func(t *testing.T, g *gates, a *tally) {
		must(t, g.redis.Kill())
		untilUnavailable(t, g, a)
		must(t, g.redis.Restart())
	}, false},
	{"the network stalls", func(t *testing.T, g *gates, a *tally) {
		g.proxy.Stall()
		untilUnavailable(t, g, a)
		must(t, g.proxy.Resume())
	}, false},
	{"replies are lost", func(t *testing.T, g *gates, a *tally) {
		g.proxy.CutReplies(10)
		untilUnavailable(t, g, a)
		must(t, g.proxy.Resume())
	}, false},
}

// TestSeveralGatesWhile calls all gates until the limit is used, while
// something fails. Never more than the limit is served. Each answer is 200,
// 429 or 503, and all gates work again by themselves. Only calls without an
// answer are counted and not served.
func TestSeveralGatesWhile(t *testing.T) {
	t.Parallel()
	g := startGates(t, "timeout 500ms", "timeout 1s", "rates 1000\n", fmt.Sprintf("rates %d\n", faultLimit))
	rounds := 1
	if storetest.Long() {
		rounds = 20
	}
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Cleanup(func() { // also after a failure
				_ = g.redis.Resume()
				must(t, g.proxy.Resume())
			})
			for round := range rounds {
				g.fail(t, fmt.Sprintf("acc_%d_%d", i, round), f)
			}
		})
	}
}

// pause leaves the processor to the gates.
func pause() { time.Sleep(2 * time.Millisecond) }

// fail calls with a new account while something fails, and checks the answers
// and the counts.
func (g *gates) fail(t *testing.T, account string, f fault) {
	t.Helper()
	key := g.account(t, account, "starter")
	a := &tally{unavailable: map[int]int{}, broken: map[int]int{}, back: map[int]bool{}}
	over := make(chan struct{})
	var ended time.Time // before over is closed
	var group sync.WaitGroup
	for i := range callers {
		gate := i % len(g.all)
		group.Go(func() {
			for {
				response, text, err := g.all[gate].TryCall("GET", ratesPath, key.Token, nil)
				a.count(gate, response, text, err)
				select {
				case <-over:
				default:
					if err != nil || response.StatusCode != http.StatusOK {
						pause()
					}
					continue
				}
				a.returned(gate, response)
				if err == nil && response.StatusCode == http.StatusTooManyRequests || time.Since(ended) > time.Minute {
					return
				}
			}
		})
	}
	eventually(t, "calls", func() error {
		if served, _ := a.soFar(); served < faultLimit/4 {
			return fmt.Errorf("%d", served)
		}
		return nil
	})
	func() {
		defer group.Wait()
		defer close(over)
		defer func() { ended = time.Now() }()
		f.during(t, g, a)
	}()
	t.Logf("%d served, %d with 429, %v with 503, %v without an answer; %d counted and not served",
		a.served, a.used, a.unavailable, a.broken, faultLimit-a.served)
	// Each of them is a call that got 503 or no answer.
	if lost, most := faultLimit-a.served, sum(a.unavailable)+sum(a.broken); lost < 0 || lost > most {
		t.Errorf("%d calls were counted and not served, want 0 to %d", lost, most)
	}
	if len(a.wrong) > 0 {
		t.Errorf("%d wrong answers, the first: %s", len(a.wrong), a.wrong[0])
	}
	if cut := sum(a.broken) - a.broken[0]; cut > 0 || !f.breaks && a.broken[0] > 0 {
		t.Errorf("calls without an answer: %v", a.broken)
	}
	if len(a.back) != len(g.all) {
		t.Errorf("only the gates %v work again", a.back)
	}
	g.checkUsage(t, account, faultLimit)
}

// returned notes that a gate works again.
func (a *tally) returned(gate int, response *http.Response) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if response != nil && response.StatusCode != http.StatusServiceUnavailable {
		a.back[gate] = true
	}
}
