package e2e_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

const (
	// reserved is the highest cost of a call, and what it reserves.
	reserved = 50
	// hardCap is the smallest limit of an account.
	hardCap = 4000
)

// capped are plans. The hard cap of an account is a limit of the day, of the
// month, or of its key.
var capped = fmt.Sprintf(`		plan day {
			rates %[1]d
			rates 1000000 month
			* 1000000 month
		}
		plan month {
			rates 1000000
			rates %[1]d month
		}
		plan key {
			rates 1000000
			rates 1000000 month
		}
`, hardCap)

// metered is a service that tells what calls cost, from 0 to reserved. Some
// answers are cut off, and some calls get none.
type metered struct {
	mu    sync.Mutex
	spent map[string]int64 // by account: the sum of the costs of all calls
	above int              // calls after which an account has spent more than its limit
}

// spend adds the cost of a call, before the answer tells it.
func (m *metered) spend(account string, cost int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent[account] += cost
	if m.spent[account] > hardCap {
		m.above++
	}
}

func (m *metered) soFar() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.spent)
}

// ServeHTTP answers a call.
func (m *metered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const name, rows = "Tollgate-Cost", 16 << 10
	account, cost := r.Header.Get("Tollgate-Account"), rand.Int64N(reserved+1)
	told := strconv.FormatInt(cost, 10)
	begin := func(status int, field, value string) {
		w.Header().Set(field, value)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat("row ", rows/4)) // the client may be gone
		_ = http.NewResponseController(w).Flush()
	}
	switch rand.IntN(8) {
	case 0: // nothing is told: the call is refunded
		panic(http.ErrAbortHandler)
	case 1:
		m.spend(account, cost)
		begin(http.StatusOK, name, told)
		panic(http.ErrAbortHandler)
	case 2: // the reservation is the cost
		m.spend(account, reserved)
		begin(http.StatusOK, "Trailer", name)
		panic(http.ErrAbortHandler)
	case 3, 4:
		m.spend(account, cost)
		begin(http.StatusOK, "Trailer", name)
		w.Header().Set(name, told)
	case 5:
		m.spend(account, cost)
		begin(http.StatusInternalServerError, name, told)
	default:
		m.spend(account, cost)
		begin(http.StatusOK, name, told)
	}
}

// startMetered starts a service, and returns changes of the shipped Caddyfile
// with which gates proxy to it, and to services that are down.
func startMetered(t *testing.T) (m *metered, oldnew []string) {
	t.Helper()
	m = &metered{spent: map[string]int64{}}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	const down = "127.0.0.1:1"
	address := server.Listener.Addr().String()
	return m, []string{
		"endpoint rates GET /api/rates/{base}\n", fmt.Sprintf("endpoint rates GET /api/rates/{base} {\n\t\t\tcost answer Tollgate-Cost reserve %d\n\t\t}\n", reserved),
		"\t\tplan free\n", "\t\tplan free\n" + capped,
		"\treverse_proxy {$", "\treverse_proxy /api/rates/down " + down + "\n" +
			"\treverse_proxy /api/rates/retried " + down + " " + address + " {\n\t\tlb_policy round_robin\n\t\tlb_retries 1\n\t}\n" +
			"\treverse_proxy /api/rates/* " + address + "\n\treverse_proxy {$",
	}
}

// spending is the use of new accounts, and counts the answers of all gates.
type spending struct {
	tally
	accounts [3]string
	tokens   [3]string
	failed   int            // 502
	answered map[int]int    // others of the service, by gate
	refused  map[string]int // 429, by account
}

// call calls a gate once. It returns whether each account was refused.
func (s *spending) call(g *gates, gate int) (exhausted bool) {
	where := []string{"down", "retried", "EUR", "EUR", "EUR", "EUR"}[rand.IntN(6)]
	by := rand.IntN(len(s.accounts))
	response, text, err := g.all[gate].TryCall("GET", "/api/rates/"+where, s.tokens[by], nil)
	if response == nil || response.StatusCode == http.StatusServiceUnavailable {
		s.count(gate, response, text, err)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch response.StatusCode {
	case http.StatusOK, http.StatusInternalServerError: // also if it is cut off
		s.answered[gate]++
	case http.StatusBadGateway:
		s.failed++
	case http.StatusTooManyRequests:
		s.refused[s.accounts[by]]++
	default:
		s.wrong = append(s.wrong, fmt.Sprintf("gate %d: %d %s", gate+1, response.StatusCode, text))
	}
	return len(s.refused) == len(s.accounts)
}

// TestHardCap: no account spends more than its limit on calls that tell what
// they cost, at any time, while a gate is killed and while replies of redis are
// lost. Each limit counts the costs that were told, and the reservations of calls
// that a crash or a lost reply left.
func TestHardCap(t *testing.T) {
	t.Parallel()
	m, oldnew := startMetered(t)
	g := startGates(t, append([]string{"timeout 500ms", "timeout 1s"}, oldnew...)...)
	failing := []fault{faults[0], faults[3]}
	var each []*spending
	for i := range failing {
		each = append(each, g.newSpending(t, i))
	}
	for i, s := range each {
		s.spend(t, g, m, failing[i])
	}
}

// newSpending makes accounts. No reload is before it: Caddy could close the
// connection.
func (g *gates) newSpending(t *testing.T, n int) *spending {
	t.Helper()
	s := &spending{tally: tally{unavailable: map[int]int{}, broken: map[int]int{}}, answered: map[int]int{}, refused: map[string]int{}}
	for i, plan := range []string{"day", "month", "key"} {
		limit := api.Limit{Endpoint: "rates", Period: "day", Limit: 1_000_000}
		if plan == "key" {
			limit.Limit = hardCap
		}
		s.accounts[i] = fmt.Sprintf("%s_%d", plan, n)
		s.tokens[i] = g.account(t, s.accounts[i], plan, limit).Token
	}
	return s
}

// spend uses up the limits of the accounts while something fails, and checks
// the counts.
func (s *spending) spend(t *testing.T, g *gates, m *metered, f fault) {
	t.Helper()
	unsettled, refunded := g.outcomes(t, "unsettled"), g.outcomes(t, "refunded")
	var group sync.WaitGroup
	over := make(chan struct{})
	for i := range callersPerGate * len(g.all) {
		group.Go(func() {
			for ended := false; !s.call(g, i%len(g.all)) || !ended; pause() {
				select {
				case <-over:
					ended = true
				default:
				}
			}
		})
	}
	eventually(t, "calls", func() error {
		spent := m.soFar()
		for _, account := range s.accounts {
			if spent[account] < hardCap/4 {
				return fmt.Errorf("%s spent %d", account, spent[account])
			}
		}
		return nil
	})
	func() {
		defer group.Wait()
		defer close(over)
		f.during(t, g, &s.tally)
	}()
	g.reloadAll(t) // waits for the settlements of all answers
	s.check(t, g, m, f, g.since(t, "unsettled", unsettled), g.since(t, "refunded", refunded))
}

// check checks what the accounts have spent, and what their limits count.
func (s *spending) check(t *testing.T, g *gates, m *metered, f fault, unsettled, refunded int) {
	t.Helper()
	spent, left := m.soFar(), int64(0)
	for _, account := range s.accounts {
		counted := g.counted(t, account)
		t.Logf("%s, %s: spent %d and counted %d of %d, %d refused", f.name, account, spent[account], counted, hardCap, s.refused[account])
		if spent[account] > counted || counted > hardCap || s.refused[account] == 0 {
			t.Errorf("%s, %s: spent %d, counted %d, %d refused", f.name, account, spent[account], counted, s.refused[account])
		}
		left += counted - spent[account]
	}
	// A reservation is left by a call without an answer, by one whose refund or
	// settlement failed with the store, or by an answer before a crash.
	may := sum(s.unavailable) + sum(s.broken) + unsettled + s.failed - refunded
	if f.breaks {
		may += s.answered[0]
	}
	t.Logf("%s: %d answers of the service, %d with 502, %v with 503, %v without an answer, %d unsettled, %d refunded: %d are left reserved, and no more than %d can be",
		f.name, sum(s.answered), s.failed, s.unavailable, s.broken, unsettled, refunded, left, may*reserved)
	if left > int64(may*reserved) {
		t.Errorf("%s: %d are left reserved, more than %d", f.name, left, may*reserved)
	}
	if m.above > 0 || len(s.wrong) > 0 {
		t.Errorf("%s: %d calls above a limit, wrong answers %v", f.name, m.above, s.wrong)
	}
}

// reloadAll reloads each gate, as "caddy reload --force" does. Caddy can close
// the connection of a request while it reloads its admin endpoint.
func (g *gates) reloadAll(t *testing.T) {
	t.Helper()
	for _, s := range g.all {
		eventually(t, "a reload", func() error {
			request, err := http.NewRequestWithContext(t.Context(), "POST", s.Admin()+"/load", strings.NewReader(read(t, s.Caddyfile)))
			must(t, err)
			request.Header.Set("Content-Type", "text/caddyfile")
			request.Header.Set("Cache-Control", "must-revalidate")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Fatalf("reloading: %d", response.StatusCode)
			}
			return nil
		})
	}
}

// outcomes returns how many calls had an outcome, by gate.
func (g *gates) outcomes(t *testing.T, outcome string) (counts []int) {
	t.Helper()
	for _, s := range g.all {
		eventually(t, "the metrics", func() error {
			_, text, err := fetch(t.Context(), s.Admin()+"/metrics")
			if err != nil {
				return err
			}
			_, value, _ := strings.Cut(text, `caddy_tollgate_requests_total{endpoint="rates",mode="enforce",outcome="`+outcome+`"} `)
			value, _, _ = strings.Cut(value, "\n")
			n, err := strconv.Atoi(value)
			must(t, err)
			counts = append(counts, n)
			return nil
		})
	}
	return counts
}

// since returns how many calls had an outcome since before.
func (g *gates) since(t *testing.T, outcome string, before []int) (n int) {
	t.Helper()
	for i, now := range g.outcomes(t, outcome) {
		n += max(0, now-before[i]) // a gate that was killed began at 0 again
	}
	return n
}
