package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

const (
	// fixedReserve is what a call to the endpoint fixed reserves. The endpoint chat
	// reserves the bound of the request.
	fixedReserve = 4096
	// mostBound is more than the bound of each random call.
	mostBound = 8000
	// smallBudget is that of the plan small.
	smallBudget = 15_000
)

var modelEndpoints = []string{"chat", "fixed"}

// TestModelCap: no account spends more than its budget of tokens at a language
// model, while callers (1,000 in the long test) call at once, clients and the service break off
// answers, and gates are reloaded or killed. Each call counts what the service has
// told, or what it reserved. No call is refused that has room. Beside it, the same
// calls have a fixed reservation.
func TestModelCap(t *testing.T) {
	t.Parallel()
	limit := int64(75_000)
	if storetest.Long() {
		limit *= 4
	}
	const cost = " {\n\t\t\tcost answer json usage.total_tokens reserve %s\n\t\t}\n"
	const plan = "\t\tplan %[1]s {\n\t\t\tchat %[2]d %[3]s\n\t\t\tfixed %[2]d %[3]s\n\t\t}\n"
	plans := fmt.Sprintf(plan, "small", smallBudget, "day")
	for _, period := range []string{"day", "month", "total"} {
		plans += fmt.Sprintf(plan, period, limit, period)
	}
	for name, redis := range map[string]bool{"three gates with Redis": true, "Badger": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startTokenService(t, limit)
			oldnew := []string{
				"\t\tendpoint rates", "\t\tendpoint chat POST /api/chat/{call}" + fmt.Sprintf(cost, "bound max_tokens 256") +
					"\t\tendpoint fixed POST /api/fixed/{call}" + fmt.Sprintf(cost, strconv.Itoa(fixedReserve)) + "\t\tendpoint rates",
				"\t\tplan free\n", "\t\tplan free\n" + plans,
				"\treverse_proxy {$", "\treverse_proxy /api/chat/* " + m.address + "\n\treverse_proxy /api/fixed/* " + m.address + "\n\treverse_proxy {$",
			}
			g := &gates{}
			if redis {
				g = startGates(t, append(patient, oldnew...)...)
			} else {
				g.add(t, stack.Start(t, stack.Shipped(t, oldnew...)))
			}
			m.storm(t, g, false)
			m.storm(t, g, true)
			m.compare(t, g)
		})
	}
}

// storm uses up the budgets of new accounts by calls at once, and then by calls one
// after the other.
func (m *tokenService) storm(t *testing.T, g *gates, kill bool) {
	t.Helper()
	first := len(m.calls)
	accounts, tokens := []string{}, map[string]string{}
	for _, plan := range []string{"day", "month", "total"} {
		account := fmt.Sprintf("%s_%t", plan, kill)
		accounts, tokens[account] = append(accounts, account), g.account(t, account, plan).Token
	}
	callers, over, group := int(m.limit/300), make(chan struct{}), sync.WaitGroup{}
	if kill {
		callers /= 10 // a kill leaves the reservations of all calls in progress
	}
	for i := range callers {
		group.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				account := accounts[rand.IntN(len(accounts))]
				c := m.random(account, modelEndpoints[rand.IntN(2)])
				c.wait = rand.N(2 * time.Second)
				if m.do(g, i%len(g.all), tokens[account], c); c.status != 200 {
					time.Sleep(rand.N(2 * time.Second))
				}
			}
		})
	}
	m.awaitSpent(t, m.limit/4, accounts) // far from the limit: calls that break off count more than they cost
	if kill {
		g.all[0].KillCaddy()
		g.all[0].StartCaddy()
	} else {
		g.reloadAll(t)
		g.reloadAll(t)
	}
	for _, account := range accounts {
		eventually(t, "the end of a budget", func() error {
			if used := g.tokens(t, account, "chat"); used < m.limit-mostBound {
				return fmt.Errorf("%s: %d", account, used)
			}
			return nil
		})
	}
	close(over)
	group.Wait()
	g.reloadAll(t)                  // waits for the settlements of all answers
	m.client.CloseIdleConnections() // the gates close them
	for _, line := range accessLog(t, g.all[0]) {
		if id, err := strconv.Atoi(path.Base(line.Request.URI)); err == nil && id >= first {
			m.calls[id].counted = line.Call.Cost
		}
	}
	for _, endpoint := range modelEndpoints {
		for _, account := range accounts {
			m.check(t, g, m.calls[first:], kill, account, endpoint)
		}
	}
	for _, account := range accounts {
		m.drain(t, g, account, tokens[account])
	}
}

// awaitSpent waits until accounts have spent this much at the endpoint chat.
func (m *tokenService) awaitSpent(t *testing.T, least int64, accounts []string) {
	t.Helper()
	eventually(t, "calls", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, account := range accounts {
			if spent := m.spent[account+" chat"]; spent < least {
				return fmt.Errorf("%s spent %d", account, spent)
			}
		}
		return nil
	})
}

// tokens returns how many tokens a gate shows as used of the budget of an account.
func (g *gates) tokens(t *testing.T, account, endpoint string) (used int64) {
	t.Helper()
	var usage api.UsageDocument
	eventually(t, "the usage", func() (err error) {
		usage, err = g.control[rand.IntN(len(g.all))].Usage(t.Context(), account, 0)
		return err
	})
	for _, e := range usage.Endpoints {
		if e.Endpoint == endpoint {
			return *e.Limits[0].Used
		}
	}
	t.Fatalf("%s has no budget", account)
	return 0
}

// check checks a budget after all calls. What a killed gate had of calls in
// progress stays reserved.
func (m *tokenService) check(t *testing.T, g *gates, calls []*modelCall, kill bool, account, endpoint string) {
	t.Helper()
	var own, final []*modelCall
	var sum, most int64 // of what calls count, and of what a kill can leave
	var admitted, reserved, lost, early int
	for _, c := range calls {
		if c.account != account || c.endpoint != endpoint {
			continue
		}
		own = append(own, c)
		killed := kill && c.gate == 0
		switch {
		case c.isFinal():
			final = append(final, c)
		case c.isRefused():
			reserved++
		case c.counted >= 0:
			admitted++
			sum += c.counted
			if killed {
				most += max(0, c.reserve-c.counted) // the settlement may be lost
			} else if !c.may(c.counted) {
				t.Errorf("%s counted %d for %+v", account, c.counted, *c)
			}
		case killed:
			most += c.reserve
			if c.served {
				lost++
			}
		case c.served:
			t.Errorf("%s has no line for %+v", account, *c)
		}
	}
	counted := g.tokens(t, account, endpoint)
	left := counted - sum
	for _, c := range final {
		settled := max(0, left) // at most, when the call was refused
		for _, other := range own {
			if other.ended > 0 && other.ended < c.answered {
				settled += max(0, other.counted)
			}
		}
		if m.limit-settled >= c.reserve {
			early++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	budget := account + " " + endpoint
	t.Logf("%s: up to %d at once, %d admitted, %d refused while calls reserve the rest, %d for good (%d while calls reserve the rest); worked %d, counted %d of %d, most above %d; %d calls lost, %d left reserved",
		budget, m.atOnce, admitted, reserved, len(final), early, m.spent[budget], counted, m.limit, m.above[budget], lost, left)
	if endpoint == "fixed" { // its calls can cost more than they reserve
		return
	}
	if left < 0 || left > most {
		t.Errorf("%s: counted %d, want %d, and at most %d more", budget, counted, sum, most)
	}
	if m.above[budget] > 0 || counted > m.limit || m.spent[budget] > counted {
		t.Errorf("%s: worked %d, counted %d of %d", budget, m.spent[budget], counted, m.limit)
	}
	if early > 0 && len(g.all) == 1 { // several gates know their own calls only
		t.Errorf("%s: %d calls refused as if others had used up the budget", budget, early)
	}
}

// try makes a call by the first gate, and waits until it is settled. It returns
// what the account has used then.
func (m *tokenService) try(t *testing.T, g *gates, token string, c *modelCall, used int64) int64 {
	t.Helper()
	if m.do(g, 0, token, c); c.isRefused() {
		return used
	}
	used += c.want()
	eventually(t, "the settlement of a call", func() error {
		if got := g.tokens(t, c.account, c.endpoint); got != used {
			return fmt.Errorf("used %d, want %d after %+v", got, used, *c)
		}
		return nil
	})
	return used
}

// drain uses up what is left of a budget by calls one after the other. A call is
// admitted if there is room for its bound, and only then.
func (m *tokenService) drain(t *testing.T, g *gates, account, token string) {
	t.Helper()
	used := g.tokens(t, account, "chat")
	try := func(c *modelCall) {
		t.Helper()
		left := m.limit - used
		used = m.try(t, g, token, c, used)
		if c.isRefused() != (c.reserve > left) || c.isRefused() != c.isFinal() {
			t.Errorf("%s: left %d, but got %+v", account, left, *c)
		}
	}
	_, least := modelBody(0, 1, 1, false)
	tryExact := func(bound int64) {
		t.Helper()
		text, bound := modelBody(int(max(0, bound-least)), 1, 1, false)
		try(m.add(account, "chat", text, bound))
	}
	tryExact(m.limit - used + 1)
	tryExact(m.limit - used - mostBound/2)
	for range 8 {
		if c := m.random(account, "chat"); c.leave < 0 {
			try(c)
		}
	}
	tryExact(m.limit - used + 1)
	tryExact(m.limit - used)
	tryExact(least)
	t.Logf("%s: at the end used %d of %d", account, used, m.limit)
}

// compare makes the same calls one after the other to both endpoints.
func (m *tokenService) compare(t *testing.T, g *gates) {
	t.Helper()
	unspent, refused, above := map[string]int64{}, map[string]int{}, int64(0)
	for i := range 5 {
		account, used := fmt.Sprintf("twin_%d", i), map[string]int64{}
		token := g.account(t, account, "small").Token
		for range 40 {
			most := 1 + rand.IntN(800)
			if rand.IntN(8) == 0 {
				most *= 8
			}
			text, bound := modelBody(rand.IntN(800), most, 1, false)
			cost, by := rand.Int64N(bound-2048), "by"
			for _, endpoint := range modelEndpoints {
				c := m.add(account, endpoint, text, bound)
				c.cost = cost
				if used[endpoint] = m.try(t, g, token, c, used[endpoint]); c.isRefused() {
					by += " " + endpoint
				}
			}
			refused[by]++
		}
		for endpoint, n := range used {
			unspent[endpoint] += max(0, smallBudget-n)
		}
		above += max(0, used["fixed"]-smallBudget)
	}
	t.Logf("the same calls, one after the other, 5 budgets of %d: refused %d by both, %d by the bound only, %d by the reservation of %d only; unspent %v; %d above a fixed reservation's budget",
		smallBudget, refused["by chat fixed"], refused["by chat"], refused["by fixed"], fixedReserve, unspent, above)
}
