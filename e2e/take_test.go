package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

const (
	stormSecret = "the secret of an end-to-end test that takes calls"
	// stormers is how many connections take calls at once, with those of clients.
	stormers = 64
	// jobReserve is what a call to the endpoint job reserves.
	jobReserve = 10
)

// withStorm are changes of the shipped Caddyfile for programs that take calls. The
// service tells the costs of clients' calls to the endpoint job.
func withStorm(service string, limit int64) (oldnew []string) {
	return []string{
		"secret {env.TOLLGATE_SECRET}", "secret {env.TOLLGATE_SECRET}\n\t\ttake_secret \"" + stormSecret + "\"",
		"\t\tendpoint rates", fmt.Sprintf("\t\tendpoint job GET /api/job {\n\t\t\tcost answer X-Cost reserve %d\n\t\t}\n\t\tendpoint rates", jobReserve),
		"\t\tplan free\n", fmt.Sprintf("\t\tplan free\n\t\tplan taken {\n\t\t\trates %[1]d\n\t\t\tjob %[1]d\n\t\t}\n", limit),
		"\treverse_proxy {$", "\treverse_proxy /api/job " + service + "\n\treverse_proxy {$",
	}
}

// TestTakeIsExact: programs that take calls, and clients that call at the same time,
// get exactly the limit of a day. A program repeats a call whose answer is lost while
// gates are killed and reloaded, at another gate if there is one. It is counted once,
// and settled once.
func TestTakeIsExact(t *testing.T) {
	t.Parallel()
	limit, kills := int64(6000), 3
	if storetest.Long() {
		limit, kills = 60_000, 30
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cost := strconv.Itoa(rand.IntN(jobReserve + 1))
		w.Header().Set("X-Cost", cost)
		fmt.Fprint(w, cost)
	}))
	t.Cleanup(service.Close)
	for name, redis := range map[string]bool{"three gates with Redis": true, "Badger": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			oldnew, g := withStorm(service.Listener.Addr().String(), limit), &gates{}
			if redis {
				g = startGates(t, append(patient, oldnew...)...)
			} else {
				g.add(t, stack.Start(t, stack.Shipped(t, oldnew...)))
			}
			for _, endpoint := range []string{"rates", "job"} {
				newStorm(t, g, endpoint, limit, 0).storm(t)
				newStorm(t, g, endpoint, limit, kills).storm(t)
			}
			for i, s := range g.all {
				if strings.Contains(s.Log(), stormSecret) {
					t.Errorf("the output of gate %d contains take_secret", i+1)
				}
			}
		})
	}
}

// takeStorm is the calls of one account to an endpoint.
type takeStorm struct {
	*gates
	programs       []*client.Client // of each gate
	account, token string
	endpoint       string
	limit          int64
	kills          int
	over           chan struct{} // closed after the last kill

	mu      sync.Mutex
	sum     int64               // what admitted calls cost, with those of clients
	byID    map[string]takenJob // of all calls with an id
	clients int                 // calls of clients that were admitted
	lost    int                 // answers to programs with an id
	unsure  int64               // what calls without an id may have cost whose answer is lost
	wrong   []string
}

// takenJob is what a program has of a call with an id.
type takenJob struct {
	api.Taking
	call string // "" if it was refused
	cost int64  // that it is settled with
}

func newStorm(t *testing.T, g *gates, endpoint string, limit int64, kills int) *takeStorm {
	t.Helper()
	a := &takeStorm{
		gates: g, endpoint: endpoint, account: fmt.Sprintf("%s_%d", endpoint, kills), limit: limit, kills: kills, over: make(chan struct{}), byID: map[string]takenJob{},
	}
	a.token = g.account(t, a.account, "taken").Token
	for _, s := range g.all {
		program, err := client.New(s.Control(), stormSecret)
		must(t, err)
		a.programs = append(a.programs, program)
	}
	return a
}

// storm uses up the limit, and checks what is counted.
func (a *takeStorm) storm(t *testing.T) {
	t.Helper()
	var group, watcher sync.WaitGroup
	for i := range stormers {
		group.Go(func() {
			for n := 0; ; n++ {
				refused := false
				if i%2 == 0 && a.kills == 0 {
					refused = a.callAsClient(t, i%len(a.all))
				} else {
					refused = a.takeOne(t, i, n)
				}
				select {
				case <-a.over:
					if refused {
						return
					}
				default:
					if a.kills > 0 || refused {
						time.Sleep(rand.N(20 * time.Millisecond))
					}
				}
			}
		})
	}
	ended := make(chan struct{})
	watcher.Go(func() { a.watch(t, ended) })
	func() {
		defer watcher.Wait()
		defer close(ended)
		defer group.Wait()
		defer close(a.over)
		a.disturb(t)
	}()
	a.reloadAll(t) // waits for the settlements of clients' calls
	a.drain(t)
	a.check(t)
}

// disturb reloads gates, or kills them, while calls come in.
func (a *takeStorm) disturb(t *testing.T) {
	t.Helper()
	for n := range max(a.kills, 2) {
		eventually(t, "calls", func() error {
			a.mu.Lock()
			defer a.mu.Unlock()
			if least := a.limit * int64(n+1) / int64(max(a.kills, 2)+2); a.sum < least {
				return fmt.Errorf("%d of %d", a.sum, least)
			}
			return nil
		})
		if a.kills == 0 || n%2 == 1 {
			a.reloadAll(t)
		}
		if a.kills > 0 {
			s := a.all[n%len(a.all)]
			s.KillCaddy()
			s.StartCaddy()
		}
	}
}

// watch checks that the account never has more than its limit.
func (a *takeStorm) watch(t *testing.T, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(50 * time.Millisecond):
		}
		usage, err := a.control[rand.IntN(len(a.all))].Usage(t.Context(), a.account, 0)
		for _, e := range usage.Endpoints {
			if err == nil && e.Endpoint == a.endpoint && *e.Limits[0].Used > a.limit {
				t.Errorf("%s: %d of %d are used", a.account, *e.Limits[0].Used, a.limit)
				return
			}
		}
	}
}

// callAsClient sends a request through a gate. It tells whether it was refused.
func (a *takeStorm) callAsClient(t *testing.T, gate int) (refused bool) {
	path, cost := ratesPath, int64(1)
	if a.endpoint == "job" {
		path = "/api/job"
	}
	response, text, err := a.all[gate].TryCall("GET", path, a.token, nil)
	if err == nil && response.StatusCode == http.StatusOK && a.endpoint == "job" {
		cost, err = strconv.ParseInt(text, 10, 64)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil || response.StatusCode == http.StatusServiceUnavailable:
		a.unsure += jobReserve
	case response.StatusCode == http.StatusOK:
		a.sum += cost
		a.clients++
	case response.StatusCode == http.StatusTooManyRequests:
		return true
	default:
		a.wrong = append(a.wrong, fmt.Sprintf("a client got %d %s", response.StatusCode, text))
	}
	return false
}

// takeOne takes a call as a program, and settles it. It tells whether the gate
// refused a call. Each second call has an id; while gates are killed, each has one.
func (a *takeStorm) takeOne(t *testing.T, program, n int) (refused bool) {
	in := api.Taking{Endpoint: a.endpoint, Cost: 1 + rand.Int64N(3)}
	if a.endpoint == "job" && n%4 > 0 {
		in.Cost = 0 // what the endpoint reserves
	}
	if rand.IntN(2) == 0 {
		in.Token = a.token
	} else {
		in.Account = a.account
	}
	if a.kills > 0 || n%2 == 0 {
		in.ID = fmt.Sprintf("%s %d %d", a.endpoint, program, n)
	}
	j := takenJob{Taking: in}
	if a.kills == 0 && in.ID != "" && n%4 == 0 {
		j.call = a.takeTwice(t, program, in)
	} else {
		j.call = a.take(t, program, in)
	}
	cost := in.Cost
	if a.endpoint == "job" && j.call != "" {
		most := in.Cost
		if most == 0 {
			most = jobReserve
		}
		cost = rand.Int64N(most + 1)
		a.settle(t, program+n, j.call, cost)
		j.cost = cost
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if in.ID != "" {
		a.byID[in.ID] = j
	}
	if j.call != "" {
		a.sum += cost
	}
	return j.call == ""
}

// takeTwice takes a call at two gates at once, or at one twice.
func (a *takeStorm) takeTwice(t *testing.T, program int, in api.Taking) (call string) {
	var group sync.WaitGroup
	var calls [2]string
	for i := range calls {
		group.Go(func() { calls[i] = a.take(t, program+i, in) })
	}
	group.Wait()
	if calls[0] != calls[1] && calls[0] != "" && calls[1] != "" {
		a.fail("%s has the calls %q", in.ID, calls)
	}
	return max(calls[0], calls[1]) // a settlement between them can admit the second one only
}

// take takes a call, and repeats it at the next gate until it has an answer. A call
// without an id is not repeated. It returns "" if the call is refused.
func (a *takeStorm) take(t *testing.T, gate int, in api.Taking) (call string) {
	for ; ; gate++ {
		got, err := a.programs[gate%len(a.all)].Take(t.Context(), in)
		switch {
		case err == nil && got.Admitted && got.Account == a.account && got.Call != "":
			return got.Call
		case err == nil && !got.Admitted && got.Status == http.StatusTooManyRequests:
			return ""
		case err == nil:
			a.fail("taking %+v: got %+v", in, got)
			return ""
		}
		if !a.again(t, err) {
			return ""
		}
		if in.ID == "" {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.unsure += max(in.Cost, jobReserve)
			return ""
		}
	}
}

// settle settles a call, at any gate, until it has an answer. A repetition changes
// nothing.
func (a *takeStorm) settle(t *testing.T, gate int, call string, cost int64) {
	for ; ; gate++ {
		err := a.programs[gate%len(a.all)].SettleCall(t.Context(), call, cost)
		if err == nil {
			break
		}
		if !a.again(t, err) {
			return
		}
	}
	if rand.IntN(4) > 0 {
		return
	}
	for {
		err := a.programs[(gate+1)%len(a.all)].SettleCall(t.Context(), call, cost+1)
		var refused *api.Error
		if errors.As(err, &refused) && refused.Code == "call_settled" || err != nil && !a.again(t, err) {
			return
		}
		if err == nil {
			a.fail("%s is settled with %d and with %d", call, cost, cost+1)
			return
		}
	}
}

// again tells whether the answer was lost, or says that the gate does not know.
func (a *takeStorm) again(t *testing.T, err error) bool {
	var refused *api.Error
	if !errors.Is(err, client.ErrUnreachable) && (!errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable) || t.Context().Err() != nil {
		a.fail("%v", err)
		return false
	}
	a.mu.Lock()
	a.lost++
	a.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	return true
}

func (a *takeStorm) fail(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

// drain takes what is left, one by one.
func (a *takeStorm) drain(t *testing.T) {
	t.Helper()
	for n := 0; ; n++ {
		call := a.take(t, n, api.Taking{Account: a.account, Endpoint: a.endpoint, Cost: 1, ID: fmt.Sprint("drain ", n)})
		if call == "" {
			return
		}
		if a.endpoint == "job" {
			a.settle(t, n, call, 1)
		}
		a.sum++
	}
}

// check checks that exactly the limit is counted, and repeats all calls.
func (a *takeStorm) check(t *testing.T) {
	t.Helper()
	counted := a.tokens(t, a.account, a.endpoint)
	t.Logf("%s: admitted %d of %d, %d calls of clients, %d with an id; %d answers lost, of calls that cost up to %d none is repeated",
		a.account, a.sum, a.limit, a.clients, len(a.byID), a.lost, a.unsure)
	if counted != a.limit || a.sum > counted || a.sum+a.unsure < counted {
		t.Errorf("%s: counted %d of %d, admitted %d, and at most %d more", a.account, counted, a.limit, a.sum, a.unsure)
	}
	if a.kills > 0 {
		if a.lost == 0 {
			t.Error("no answer was lost")
		}
		a.all[0].KillCaddy()
		a.all[0].StartCaddy()
	}
	var group sync.WaitGroup
	jobs := make(chan takenJob)
	for i := range stormers {
		group.Go(func() {
			for j := range jobs {
				if call := a.take(t, i, j.Taking); call != j.call {
					a.fail("the call %+v has the name %q later", j, call)
				} else if call != "" && a.endpoint == "job" {
					a.settle(t, i, call, j.cost)
				}
			}
		})
	}
	for _, j := range a.byID {
		jobs <- j
	}
	close(jobs)
	group.Wait()
	if again := a.tokens(t, a.account, a.endpoint); again != counted {
		t.Errorf("%s: %d are counted after all calls were repeated, %d before", a.account, again, counted)
	}
	zone, err := time.LoadLocation(stack.CalmZone())
	must(t, err)
	exported := int64(0)
	for _, row := range decode[[]api.UsageCount](t, a.all[0].Tollgate("usage", "export", "--month", time.Now().In(zone).Format("2006-01"), "--format", "json")) {
		if row.Account == a.account && row.Endpoint == a.endpoint {
			exported += row.Calls
		}
	}
	if exported != counted {
		t.Errorf("%s: %d are exported, %d counted", a.account, exported, counted)
	}
	if len(a.wrong) > 0 {
		t.Errorf("%s: %d wrong answers, the first: %s", a.account, len(a.wrong), a.wrong[0])
	}
}
