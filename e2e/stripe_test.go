package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// sold is a gate whose site passes the webhooks on as the recipe says.
const sold = `{
	tollgate {
		store badger {$TOLLGATE_DATA}/gate
		secret {env.TOLLGATE_SECRET}
		guard /api/
		usage GET /api/usage
		plan free
		plan starter {
			usage 100
		}
		plan business {
			usage 1000
		}
	}
}

{$TOLLGATE_ADDRESS} {
	tollgate
%s}

http://{$TOLLGATE_CONTROL} {
	tollgate_control
}
`

// subscription is what differs between the subscriptions of a test.
type subscription struct{ id, account, status, price, key string }

// object returns the object that Stripe documents, as this subscription.
func (s subscription) object(t *testing.T) map[string]any {
	t.Helper()
	o := decode[map[string]any](t, read(t, filepath.Join("testdata", "subscription.json")))
	o["id"], o["status"] = s.id, s.status
	if s.account != "" {
		o["metadata"] = map[string]any{"tollgate_account": s.account}
	}
	item := o["items"].(map[string]any)["data"].([]any)[0].(map[string]any)
	price := item["price"].(map[string]any)
	item["subscription"] = s.id
	if s.price != "" {
		price["id"] = s.price
	}
	if s.key != "" {
		price["lookup_key"] = s.key
	}
	return o
}

// stripe is Stripe: the subscriptions of one customer, and its events.
type stripe struct {
	t       *testing.T
	modules string
	hook    string // where events go

	mu      sync.Mutex
	current []subscription
	asked   int
	next    func() []subscription // replaces current
}

const hookSecret = "whsec_of_this_test"

// ServeHTTP lists subscriptions, without those that have ended, as Stripe does.
func (s *stripe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked++
	if s.next != nil {
		s.current = s.next()
	}
	current := s.current
	s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer sk_test_key" || r.Method != http.MethodGet || r.URL.Path != "/v1/subscriptions" || r.URL.Query().Get("customer") != "cus_Na6dX7aXxi11N4" {
		s.t.Errorf("Stripe was asked for %s %s", r.Method, r.URL)
	}
	data := []any{}
	for _, one := range current {
		if one.status != "canceled" && one.status != "incomplete_expired" {
			data = append(data, one.object(s.t))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "url": "/v1/subscriptions", "has_more": false, "data": data}) // the program tells of a failure
}

// event returns the text of an event, as Stripe documents it.
func (s *stripe) event(kind string, of subscription) string {
	s.t.Helper()
	text, err := json.MarshalIndent(map[string]any{
		"id": "evt_1MowQWLkdIwHu7ixPJeV5HUs", "object": "event", "api_version": "2025-03-31.basil", "created": 1679609769, "type": kind,
		"data": map[string]any{"object": of.object(s.t)}, "livemode": false, "pending_webhooks": 1, "request": map[string]any{"id": nil, "idempotency_key": nil},
	}, "", "  ")
	must(s.t, err)
	return string(text)
}

// sign returns Stripe-Signature of a text, made by Stripe's package.
func (s *stripe) sign(payload, secret string, at time.Time) string {
	s.t.Helper()
	cmd := exec.Command("node", "-e", `
const { payload, secret, timestamp } = JSON.parse(process.argv[1])
console.log(require('stripe')('sk_test_key').webhooks.generateTestHeaderString({ payload, secret, timestamp }))`, fmt.Sprintf(`{"payload":%s,"secret":%q,"timestamp":%d}`, quoted(payload), secret, at.Unix()))
	cmd.Env = append(os.Environ(), "NODE_PATH="+s.modules)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("signing: %v, %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // a string has no error
	return string(b)
}

// post sends a text to the webhook, and returns the answer.
func (s *stripe) post(url, payload, signature string) (status int, body string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, url, strings.NewReader(payload))
	must(s.t, err)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if signature != "" {
		r.Header.Set("Stripe-Signature", signature)
	}
	response, err := http.DefaultClient.Do(r)
	must(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(s.t, err)
	return response.StatusCode, string(text)
}

// send sends an event as Stripe does.
func (s *stripe) send(kind string, of subscription) (status int, body string) {
	s.t.Helper()
	text := s.event(kind, of)
	return s.post(s.hook, text, s.sign(text, hookSecret, time.Now()))
}

// requests returns how often the program asked Stripe.
func (s *stripe) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// has sets the subscriptions of the customer.
func (s *stripe) has(current ...subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = current
}

// startStripe starts the recipe behind a gate, with a Stripe of the test.
func startStripe(t *testing.T) (s *stripe, gate *stack.Stack, direct string) {
	t.Helper()
	s = &stripe{t: t, modules: npmtest.Install(t, "stripe@23.1.0")}
	api := httptest.NewServer(s)
	t.Cleanup(api.Close)
	program := read(t, filepath.Join(stack.Root(), "examples", "stripe.mjs"))
	port := stack.FreePorts(t, 1)[0]
	site := ""
	for _, line := range regexp.MustCompile(`(?m)^//(\t.*\n)`).FindAllStringSubmatch(program, -1) {
		site += line[1]
	}
	gate = stack.StartGate(t, fmt.Sprintf(sold, strings.Replace(site, "4242", port, 1)))
	s.hook = gate.Address + "/stripe"

	const client = "{ timeout: 5000 }"
	if !strings.Contains(program, client) {
		t.Fatalf("the recipe has no %q", client)
	}
	host, apiPort, err := net.SplitHostPort(api.Listener.Addr().String())
	must(t, err)
	program = strings.Replace(program, client, fmt.Sprintf("{ timeout: 5000, maxNetworkRetries: 0, protocol: 'http', host: '%s', port: %s }", host, apiPort), 1)
	folder := t.TempDir()
	must(t, os.Symlink(s.modules, filepath.Join(folder, "node_modules")))
	must(t, os.WriteFile(filepath.Join(folder, "stripe.mjs"), []byte(program), 0o600))
	without := exec.CommandContext(t.Context(), "node", filepath.Join(folder, "stripe.mjs"))
	without.Env = append(os.Environ(), "STRIPE_API_KEY=sk_test_key", "STRIPE_WEBHOOK_SECRET=")
	if out, err := without.CombinedOutput(); err == nil || !strings.Contains(string(out), "STRIPE_WEBHOOK_SECRET is not set") {
		t.Errorf("without a secret of the webhook: got %v, %s", err, out)
	}
	serve(t, "127.0.0.1:"+port, "env", "PORT="+port, "STRIPE_API_KEY=sk_test_key", "STRIPE_WEBHOOK_SECRET="+hookSecret,
		"TOLLGATE_CONTROL="+strings.TrimPrefix(gate.Control(), "http://"), "TOLLGATE_SECRET="+stack.Secret, "node", filepath.Join(folder, "stripe.mjs"))
	return s, gate, "http://127.0.0.1:" + port
}

// planOf returns the plan of an account, "" for none.
func planOf(gate *stack.Stack, account string) string {
	out, err := gate.Try("caddy", "", "tollgate", "account", "show", account, "--json")
	var shown struct{ Plan string }
	if err != nil || json.Unmarshal([]byte(out), &shown) != nil {
		return ""
	}
	return shown.Plan
}

// TestStripe runs the recipe for Stripe's webhooks with the objects that Stripe
// documents and the signatures of its package. A plan follows the subscriptions,
// also if events are repeated, late or out of order.
func TestStripe(t *testing.T) {
	t.Parallel()
	s, gate, direct := startStripe(t)
	const created, updated, deleted = "customer.subscription.created", "customer.subscription.updated", "customer.subscription.deleted"
	first := func(status string) subscription { return subscription{id: "sub_1", account: "acc_1", status: status} }
	best := func(status string) subscription {
		return subscription{id: "sub_2", account: "acc_1", status: status, price: "price_of_2027", key: "business_monthly"}
	}
	for _, step := range []struct {
		kind   string
		of     subscription // as the event has it
		now    []subscription
		status int
		plan   string
	}{
		{created, first("incomplete"), []subscription{first("incomplete")}, 204, ""},
		{updated, first("active"), []subscription{first("active")}, 204, "starter"},
		{updated, first("active"), []subscription{first("active")}, 204, "starter"},
		{created, first("incomplete"), []subscription{first("active")}, 204, "starter"}, // late
		{created, best("trialing"), []subscription{best("trialing"), first("active")}, 204, "business"},
		{deleted, first("canceled"), []subscription{best("active"), first("canceled")}, 204, "business"}, // of an older one
		{updated, best("past_due"), []subscription{best("past_due")}, 204, "business"},
		{updated, best("unpaid"), []subscription{best("unpaid")}, 204, "free"},
		{updated, best("active"), []subscription{best("active")}, 204, "business"},
		{"customer.subscription.paused", best("paused"), []subscription{best("paused")}, 204, "free"},
		{"customer.subscription.resumed", best("active"), []subscription{best("active")}, 204, "business"},
		{updated, best("active"), []subscription{{id: "sub_2", account: "acc_1", status: "active", price: "price_unknown"}}, 503, "business"},
		{updated, subscription{id: "sub_9", status: "active"}, nil, 204, "business"},            // of another product
		{"customer.updated", subscription{id: "cus_1", account: "acc_1"}, nil, 204, "business"}, // of another kind
		{deleted, best("canceled"), []subscription{best("canceled")}, 204, "free"},
		{updated, best("active"), []subscription{best("canceled")}, 204, "free"}, // late
	} {
		s.has(step.now...)
		status, body := s.send(step.kind, step.of)
		if got := planOf(gate, "acc_1"); status != step.status || got != step.plan {
			t.Errorf("%s of %s, %s: got %d %s and the plan %q, want %d and %q", step.kind, step.of.id, step.of.status, status, body, got, step.status, step.plan)
		}
	}
	entries := regexp.MustCompile(`(?m)account\.(create|set).*Stripe cus_Na6dX7aXxi11N4`).FindAllString(gate.Tollgate("audit", "--account", "acc_1"), -1)
	if len(entries) != 7 {
		t.Errorf("the audit log has %d changes, want 7:\n%s", len(entries), strings.Join(entries, "\n"))
	}

	// What was not set is answered so that Stripe sends it again.
	s.has(best("active"))
	gate.StopCaddy()
	text := s.event(updated, best("active"))
	if status, body := s.post(direct, text, s.sign(text, hookSecret, time.Now())); status != http.StatusServiceUnavailable {
		t.Errorf("without the gate: got %d %s", status, body)
	}
	gate.StartCaddy()
	if status, body := s.post(direct, text, s.sign(text, hookSecret, time.Now())); status != http.StatusNoContent || planOf(gate, "acc_1") != "business" {
		t.Errorf("with the gate again: got %d %s", status, body)
	}

	// A closed account is not created again.
	gate.Tollgate("account", "delete", "acc_1", "--yes")
	s.has(best("canceled"))
	if status, body := s.send(deleted, best("canceled")); status != http.StatusNoContent || planOf(gate, "acc_1") != "" {
		t.Errorf("the end of a closed account: got %d %s, plan %q", status, body, planOf(gate, "acc_1"))
	}
}

// TestStripeAtOnce: many events at once leave the plan of the newest answer that
// Stripe gave.
func TestStripeAtOnce(t *testing.T) {
	t.Parallel()
	s, gate, _ := startStripe(t)
	answers := [][]subscription{
		{{id: "sub_1", account: "acc_1", status: "active"}}, {{id: "sub_1", account: "acc_1", status: "active", key: "business_monthly"}}, nil,
	}
	s.next = func() []subscription { return answers[s.asked%len(answers)] }
	text := s.event("customer.subscription.updated", answers[0][0])
	signature := s.sign(text, hookSecret, time.Now())
	var sent sync.WaitGroup
	const events = 40 // 40 % 3 is 1: the last answer is business
	for range events {
		sent.Go(func() {
			if status, body := s.post(s.hook, text, signature); status != http.StatusNoContent {
				t.Errorf("got %d %s", status, body)
			}
		})
	}
	sent.Wait()
	if got, asked := planOf(gate, "acc_1"), s.requests(); got != "business" || asked != events {
		t.Errorf("got the plan %q after %d answers", got, asked)
	}
}

// Threat: a stranger who finds the webhook gives himself a plan. Only bodies that
// Stripe has signed a moment ago are read, and no body is unbounded.
func TestStripeSignature(t *testing.T) {
	t.Parallel()
	s, gate, _ := startStripe(t)
	mine := subscription{id: "sub_1", account: "acc_1", status: "active"}
	s.has(mine)
	text := s.event("customer.subscription.updated", mine)
	valid := s.sign(text, hookSecret, time.Now())
	for name, c := range map[string]struct {
		payload, signature string
		status             int
	}{
		"no signature":     {text, "", 400},
		"another secret":   {text, s.sign(text, "whsec_of_a_stranger", time.Now()), 400},
		"another scheme":   {text, strings.Replace(s.sign(text, hookSecret, time.Now()), "v1=", "v0=", 1), 400},
		"another body":     {strings.Replace(text, "acc_1", "acc_2", 1), valid, 400},
		"an old signature": {text, s.sign(text, hookSecret, time.Now().Add(-time.Hour)), 400},
		"no event":         {"{", s.sign("{", hookSecret, time.Now()), 400},
		"a long body":      {text + strings.Repeat(" ", 1<<21), valid, 413},
	} {
		if status, body := s.post(s.hook, c.payload, c.signature); status != c.status {
			t.Errorf("%s: got %d %s, want %d", name, status, body, c.status)
		}
	}
	if asked := s.requests(); asked != 0 || planOf(gate, "acc_1") != "" || planOf(gate, "acc_2") != "" {
		t.Errorf("Stripe was asked %d times, or an account exists", asked)
	}
	if status, body := s.post(s.hook, text, valid); status != http.StatusNoContent || planOf(gate, "acc_1") != "starter" {
		t.Errorf("the event: got %d %s", status, body)
	}
}
