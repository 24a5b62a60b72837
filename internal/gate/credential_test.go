package gate_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// received is what the service got of a request.
type received struct {
	header http.Header
}

// fronting makes a world in front of an existing service, and what the service
// received last.
func fronting(t testing.TB, change func(*policy.Config)) (*world, *received) {
	w := newWorld(t, func(c *policy.Config) {
		c.TokenHeader, c.ForeignKeys = "X-Api-Key", true
		c.Endpoints[1].Keep = []string{"Authorization", "Cookie"}
		c.Endpoints[1].Upgrade = true
		if change != nil {
			change(c)
		}
	})
	got := &received{}
	w.next = func(rw http.ResponseWriter, r *http.Request) error {
		got.header = r.Header.Clone()
		status := http.StatusOK
		if r.Header.Get("Upgrade") != "" {
			status = http.StatusSwitchingProtocols
		}
		rw.WriteHeader(status)
		return nil
	}
	return w, got
}

// foreignKey stores a key whose token has this hash.
func (w *world) foreignKey(t testing.TB, account, id string, hash token.Hash) {
	t.Helper()
	key := store.Key{ID: id, Account: account, Kind: token.Key, Name: id, Abilities: []string{"convert", "rates"}, CreatedAt: w.clock()}
	if err := w.db.CreateKey(t.Context(), key, hash); err != nil {
		t.Fatal(err)
	}
}

// TestTokenPlaces: a request shows one token in one place.
func TestTokenPlaces(t *testing.T) {
	t.Parallel()
	w, got := fronting(t, nil)
	own := w.account(t, "acc_1")
	const foreign, split = "an old token with 30 chars", "12|the old token of a session"
	plain, split2 := strings.ReplaceAll(foreign, " ", "-"), strings.ReplaceAll(split, " ", "-")
	w.foreignKey(t, "acc_1", "key_plain", token.Foreign(plain))
	w.foreignKey(t, "acc_1", "key_split", token.Prefixed("12", token.Foreign("the-old-token-of-a-session")))
	w.foreignKey(t, "acc_1", "key_whole", token.Foreign("7|a-token-with-a-bar-in-it"))
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket"}
	for _, c := range []struct {
		name, target string
		headers      []string
		status       int
		code         string
	}{
		{"own in Authorization", convert, []string{"Authorization: Bearer " + own}, 200, ""},
		{"own in the token header", convert, []string{"X-Api-Key: " + own}, 200, ""},
		{"foreign in Authorization", convert, []string{"Authorization: bearer  " + plain}, 200, ""},
		{"with a prefix", convert, []string{"Authorization: Bearer " + split2}, 200, ""},
		{"stored whole, with a bar", convert, []string{"Authorization: Bearer 7|a-token-with-a-bar-in-it"}, 200, ""},
		{"with another prefix", convert, []string{"Authorization: Bearer 13|the-old-token-of-a-session"}, 401, "invalid_token"},
		{"without its prefix", convert, []string{"Authorization: Bearer the-old-token-of-a-session"}, 401, "invalid_token"},
		{"both places", convert, []string{"Authorization: Bearer " + own, "X-Api-Key: " + own}, 400, "invalid_request"},
		{"another scheme and the token header", convert, []string{"Authorization: Basic YTpi", "X-Api-Key: " + own}, 400, "invalid_request"},
		{"an empty token header", convert, []string{"X-Api-Key: "}, 401, "unauthenticated"},
		{"a scheme in the token header", convert, []string{"X-Api-Key: Bearer " + own}, 401, "invalid_token"},
		{"nothing", convert, nil, 401, "unauthenticated"},
		{"in the query", convert + "?api_key=x", []string{"X-Api-Key: " + own}, 400, "invalid_request"},
		{"a subprotocol without upgrade in the endpoint", convert, []string{"Sec-WebSocket-Protocol: tollgate.bearer." + own}, 401, "unauthenticated"},
		{"the service's own Authorization", "/api/rates/EUR", []string{"Authorization: Bearer of-the-service", "X-Api-Key: " + own}, 200, ""},
		{"two of the service's own", "/api/rates/EUR", []string{"Authorization: Bearer of-the-service", "Authorization: Basic YTpi", "X-Api-Key: " + own}, 400, "invalid_request"},
		{"two own tokens", "/api/rates/EUR", []string{"Authorization: Bearer " + own, "X-Api-Key: " + own}, 400, "invalid_request"},
		{"a subprotocol", "/api/rates/EUR", append(upgrade, "Sec-WebSocket-Protocol: chat, tollgate.bearer."+own), 101, ""},
		{"a subprotocol and the token header", "/api/rates/EUR", append(upgrade, "Sec-WebSocket-Protocol: tollgate.bearer."+own, "X-Api-Key: "+own), 400, "invalid_request"},
		{"two subprotocols", "/api/rates/EUR", append(upgrade, "Sec-WebSocket-Protocol: tollgate.bearer."+own+",tollgate.bearer."+own), 400, "invalid_request"},
	} {
		got.header = nil
		if err := w.db.ResetCounts(t.Context(), "acc_1", "", w.gate.Policy.Calendar.At(noon).Day); err != nil {
			t.Fatal(err)
		}
		answer, err := w.ask("GET", c.target, "", c.headers...)
		if err != nil || answer.Code != c.status || c.code != "" && !strings.Contains(answer.Body.String(), `"`+c.code+`"`) {
			t.Errorf("%s: got %d %s, %v, want %d %s", c.name, answer.Code, answer.Body, err, c.status, c.code)
		}
		if c.code == "unauthenticated" && !strings.Contains(answer.Body.String(), "X-Api-Key") {
			t.Errorf("%s: got %s, which names not all headers for tokens", c.name, answer.Body)
		}
		if vary := strings.Join(answer.Header().Values("Vary"), ", "); vary != "Authorization, X-Api-Key" {
			t.Errorf("%s: got Vary %q", c.name, vary)
		}
		sent := strings.Join(got.header.Values("X-Api-Key"), "") + strings.Join(got.header.Values("Sec-WebSocket-Protocol"), "")
		if strings.Contains(sent, "tg") || c.target == convert && got.header.Get("Authorization") != "" {
			t.Errorf("%s: the service got %v", c.name, got.header)
		}
	}
}

// TestKeep: the headers that an endpoint keeps go on to the service, and no
// others.
func TestKeep(t *testing.T) {
	t.Parallel()
	w, got := fronting(t, nil)
	bearer := w.account(t, "acc_1")
	for target, want := range map[string]string{convert: " ", "/api/rates/EUR": "Bearer " + bearer + " id=1"} {
		if answer, err := w.ask("GET", target, "", "Authorization: Bearer "+bearer, "Cookie: id=1"); err != nil || answer.Code != 200 {
			t.Fatalf("%s: got %d, %v", target, answer.Code, err)
		}
		if sent := got.header.Get("Authorization") + " " + got.header.Get("Cookie"); sent != want {
			t.Errorf("%s: the service got %q, want %q", target, sent, want)
		}
	}
}

// TestSubprotocol: a token as a subprotocol goes no further. The gate chooses
// its own subprotocol only if the client offers it and the service chooses
// none.
func TestSubprotocol(t *testing.T) {
	t.Parallel()
	w, got := fronting(t, nil)
	bearer := "tollgate.bearer." + w.account(t, "acc_1")
	for _, c := range []struct{ offered, sent, chosen, answered string }{
		{"chat, " + bearer + ", v2", "chat, v2", "chat", "chat"},
		{bearer, "", "", ""},
		{"tollgate, " + bearer, "", "", "tollgate"},
		{"tollgate, " + bearer + ", chat", "chat", "chat", "chat"},
	} {
		w.next = func(rw http.ResponseWriter, r *http.Request) error {
			got.header = r.Header.Clone()
			if c.chosen != "" {
				rw.Header()["Sec-WebSocket-Protocol"] = []string{c.chosen} // as Caddy's proxy
			}
			rw.WriteHeader(http.StatusSwitchingProtocols)
			return nil
		}
		answer, err := w.ask("GET", "/api/rates/EUR", "", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Protocol: "+c.offered)
		if err != nil || answer.Code != 101 {
			t.Fatalf("%s: got %d %s, %v", c.offered, answer.Code, answer.Body, err)
		}
		answered := ""
		for name, values := range answer.Header() {
			if strings.EqualFold(name, "Sec-WebSocket-Protocol") {
				answered += strings.Join(values, ", ")
			}
		}
		if sent := got.header.Get("Sec-WebSocket-Protocol"); sent != c.sent || answered != c.answered {
			t.Errorf("%s: the service got %q, the client %q", c.offered, sent, answered)
		}
	}
}

// TestForeignKeysOff: without the option, a stored foreign token is malformed.
func TestForeignKeysOff(t *testing.T) {
	t.Parallel()
	w, _ := fronting(t, func(c *policy.Config) { c.ForeignKeys = false })
	w.account(t, "acc_1")
	const text = "an-old-token-of-another-gate"
	w.foreignKey(t, "acc_1", "key_old", token.Foreign(text))
	if answer, _ := w.ask("GET", convert, "", "Authorization: Bearer "+text); answer.Code != 401 {
		t.Errorf("got %d %s, want 401", answer.Code, answer.Body)
	}
}

// TestForeignGuesses: a client sends 20 unknown tokens in a minute. Then no
// foreign token of it is looked up, also not a right one, but for those that
// were accepted from it before. Tokens of the gate do not wait.
func TestForeignGuesses(t *testing.T) {
	t.Parallel()
	w, _ := fronting(t, nil)
	own := w.account(t, "acc_1")
	w.account(t, "acc_2")
	const right, split, used, usedSplit = "an-old-token-of-another-gate", "12|another-old-token-of-a-gate", "a-token-that-worked-from-here", "7|a-token-that-worked-from-here"
	w.foreignKey(t, "acc_1", "key_old", token.Foreign(right))
	w.foreignKey(t, "acc_1", "key_split", token.Prefixed("12", token.Foreign("another-old-token-of-a-gate")))
	w.foreignKey(t, "acc_2", "key_used", token.Foreign(used))
	w.foreignKey(t, "acc_2", "key_used_split", token.Prefixed("7", token.Foreign(used)))
	w.foreignKey(t, "acc_2", "key_revoked", token.Foreign("a-token-that-is-revoked-soon"))
	ask := func(bearer string, status int) {
		t.Helper()
		answer, err := w.ask("GET", convert, "", "Authorization: Bearer "+bearer)
		if err != nil || answer.Code != status {
			t.Fatalf("%s: got %d %s, %v, want %d", bearer, answer.Code, answer.Body, err, status)
		}
		if status == http.StatusTooManyRequests && (answer.Header().Get("Retry-After") != "60" || !strings.Contains(answer.Body.String(), "too_many_attempts")) {
			t.Errorf("got %v %s", answer.Header(), answer.Body)
		}
	}
	ask(used, 200)
	ask(usedSplit, 200)
	ask("a-token-that-is-revoked-soon", 200)
	if err := w.db.RevokeKey(t.Context(), "acc_2", "key_revoked", w.clock()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		ask("a-wrong-guess-of-a-token", 401)
	}
	ask("a-wrong-guess-of-a-token", 429)
	for range 2 { // a right token is not remembered while its client must wait
		ask(right, 429)
		ask(split, 429)
	}
	ask("a-token-that-is-revoked-soon", 429)
	ask(own, 200)
	if err := w.db.ResetCounts(t.Context(), "acc_2", "", w.gate.Policy.Calendar.At(noon).Day); err != nil {
		t.Fatal(err)
	}
	ask(used, 200)
	ask(usedSplit, 200)
	w.set(noon.Add(time.Minute))
	ask(right, 200)
	ask(split, 200)
}

// TestParallelGuess: a right guess among many wrong ones at once is refused if
// 20 wrong ones were found before it.
func TestParallelGuess(t *testing.T) {
	t.Parallel()
	w, _ := fronting(t, nil)
	w.account(t, "acc_1")
	const right = "an-old-token-of-another-gate"
	w.foreignKey(t, "acc_1", "key_old", token.Foreign(right))
	slow := &slowGrants{Store: w.store, hash: token.Foreign(right), looking: make(chan struct{}), resume: make(chan struct{})}
	w.store = slow
	done := make(chan int)
	go func() {
		answer, _ := w.ask("GET", convert, "", "Authorization: Bearer "+right)
		done <- answer.Code
	}()
	<-slow.looking
	for range 20 {
		if answer, _ := w.ask("GET", convert, "", "Authorization: Bearer a-wrong-guess-of-a-token"); answer.Code != 401 {
			t.Fatalf("got %d", answer.Code)
		}
	}
	close(slow.resume)
	if status := <-done; status != 429 {
		t.Errorf("the right guess: got %d, want 429", status)
	}
}

// TestIdentity: a user whom another handler has authenticated is an account.
// Headers of the client do not change it.
func TestIdentity(t *testing.T) {
	t.Parallel()
	w, got := fronting(t, func(c *policy.Config) {
		c.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}", Plan: "small", Prefix: "staff."}
	})
	own := w.account(t, "acc_1")
	disabled := store.Account{ID: "staff.gone", Plan: "small", Disabled: true}
	if _, err := storetest.PutAccount(t.Context(), w.db.Book, disabled); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, identity string
		headers        []string
		status         int
		account, code  string
	}{
		{name: "of nobody", status: 401, code: "unauthenticated"},
		{name: "claimed by headers", headers: []string{"Tollgate-Account: staff.ann", "X-User: ann", "Authorization: Basic YW5uOng="}, status: 401, code: "unauthenticated"},
		{name: "of a user", identity: "ann", status: 200, account: "staff.ann"},
		{name: "with another Authorization", identity: "ann", headers: []string{"Authorization: Basic YW5uOng="}, status: 200, account: "staff.ann"},
		{name: "with another claim", identity: "ann", headers: []string{"Tollgate-Account: acc_1", "Authorization: Bearer a-token-of-the-service"}, status: 200, account: "staff.ann"},
		{name: "with a token of the gate", identity: "ann", headers: []string{"Authorization: Bearer " + own}, status: 200, account: "acc_1"},
		{name: "with a wrong token of the gate", identity: "ann", headers: []string{"Authorization: Bearer tgk_x"}, status: 401, code: "invalid_token"},
		{name: "of a disabled account", identity: "gone", status: 401, code: "invalid_token"},
		{name: "with a space", identity: "ann lee", status: 200, account: "staff.ann-lee--2tzcsz2b3klhnrpvxks63iql2bj2h4pj"},
		{name: "too long", identity: strings.Repeat("a", 59), status: 200, account: "staff.aaaaaaaaaaaaaaaaaaaaaaaa--zz677huemlvahbm4zrdilk4d57qm4jdm"},
		{name: "with a token in the query", identity: "ann", status: 400, code: "invalid_request"},
	} {
		w.mu.Lock()
		w.identity = c.identity
		w.mu.Unlock()
		got.header = nil
		target := convert
		if c.status == 400 {
			target += "?access_token=x"
		}
		answer, err := w.ask("GET", target, "", c.headers...)
		if err != nil || answer.Code != c.status || c.code != "" && !strings.Contains(answer.Body.String(), `"`+c.code+`"`) {
			t.Errorf("%s: got %d %s, %v, want %d %s", c.name, answer.Code, answer.Body, err, c.status, c.code)
		}
		if account := got.header.Get("Tollgate-Account"); account != c.account {
			t.Errorf("%s: the service got account %q, want %q", c.name, account, c.account)
		}
		if _, hasKey := got.header["Tollgate-Key"]; c.account != "" && hasKey != (c.account == "acc_1") {
			t.Errorf("%s: the service got Tollgate-Key %v", c.name, got.header["Tollgate-Key"])
		}
		if c.account == "staff.ann" && got.header.Get("Tollgate-Abilities") != "convert rates usage" {
			t.Errorf("%s: the service got abilities %q", c.name, got.header.Get("Tollgate-Abilities"))
		}
	}
	if want := []string{"staff.ann ann small", "staff.ann-lee--2tzcsz2b3klhnrpvxks63iql2bj2h4pj ann lee small", "staff.aaaaaaaaaaaaaaaaaaaaaaaa--zz677huemlvahbm4zrdilk4d57qm4jdm " + strings.Repeat("a", 59) + " small"}; !slices.Equal(w.enrolled, want) {
		t.Errorf("enrolled %q, want %q", w.enrolled, want)
	}
	w.mu.Lock()
	w.identity = "ann"
	w.mu.Unlock()
	for _, status := range []int{200, 200, 429} { // 3 calls were admitted before
		if answer, _ := w.ask("GET", convert, ""); answer.Code != status {
			t.Errorf("got %d, want %d", answer.Code, status)
		}
	}
	if answer, _ := w.ask("GET", "/api/usage", ""); answer.Code != 200 || !strings.Contains(answer.Body.String(), `"account":"staff.ann"`) {
		t.Errorf("usage: got %d %s", answer.Code, answer.Body)
	}
}

// TestPlanOfIdentity: the placeholder names the plan of a new account, one of the
// list. A known account keeps its plan. In mode shadow, another plan passes.
func TestPlanOfIdentity(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.Mode{policy.Enforce, policy.Shadow} {
		w, got := fronting(t, func(c *policy.Config) {
			c.Mode, c.Identity = mode, &policy.IdentityConfig{Placeholder: "{http.auth.user.id}", Plan: "{http.auth.user.plan}", Plans: []string{"small", "large"}}
			c.Plans = append(c.Plans, policy.PlanConfig{Name: "large", Limits: c.Plans[0].Limits}, policy.PlanConfig{Name: "secret", Limits: c.Plans[0].Limits})
		})
		for _, c := range []struct{ user, plan, want string }{
			{"ann", "", ""}, {"ann", "secret", ""}, {"ann", "Large", ""}, {"ann", "small large", ""}, {"ann", "{http.auth.user.plan}", ""},
			{"ann", "large", "large"}, {"ann", "small", "large"}, {"ann", "secret", "large"}, {"ann", "", "large"}, {"bob", "small", "small"},
		} {
			w.mu.Lock()
			w.identity, w.planOfUser = c.user, c.plan
			w.mu.Unlock()
			got.header = nil
			answer, _ := w.ask("GET", convert, "")
			refused := answer.Code == http.StatusForbidden && strings.Contains(answer.Body.String(), `"invalid_identity"`)
			if plan := got.header.Get("Tollgate-Plan"); plan != c.want || refused != (c.want == "" && mode == policy.Enforce) {
				t.Errorf("%s, %s of plan %q: got %d %s and plan %q, want %q", mode, c.user, c.plan, answer.Code, answer.Body, plan, c.want)
			}
		}
		if want := []string{"ann ann large", "bob bob small"}; !slices.Equal(w.enrolled, want) {
			t.Errorf("%s: enrolled %q, want %q", mode, w.enrolled, want)
		}
	}
}

// TestIdentityWithoutAccess: no account is made for a plan without access.
func TestIdentityWithoutAccess(t *testing.T) {
	t.Parallel()
	w, _ := fronting(t, func(c *policy.Config) {
		c.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}"}
	})
	w.identity = "ann"
	if answer, _ := w.ask("GET", convert, ""); answer.Code != 403 || !strings.Contains(answer.Body.String(), "plan_required") {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
	if len(w.enrolled) != 0 {
		t.Errorf("enrolled %q", w.enrolled)
	}
}

// TestDeletedIdentity: an identity whose account is deleted during its call is
// refused. The next call makes the account again.
func TestDeletedIdentity(t *testing.T) {
	t.Parallel()
	w, _ := fronting(t, func(c *policy.Config) {
		c.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}", Plan: "small"}
	})
	w.identity = "ann"
	w.store = &deletingStore{Store: w.db}
	for _, status := range []int{401, 200} {
		if answer, _ := w.ask("GET", convert, ""); answer.Code != status {
			t.Errorf("got %d %s, want %d", answer.Code, answer.Body, status)
		}
	}
}

// deletingStore deletes the account of the first call before it counts, as
// another gate can.
type deletingStore struct {
	*storetest.Store
	deleted bool
}

// Take implements store.Counter.
func (s *deletingStore) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	if !s.deleted {
		s.deleted = true
		return false, errors.Join(store.ErrChanged, s.DeleteAccount(ctx, call.Account))
	}
	return s.Store.Take(ctx, call, limits, rooms)
}

// slowGrants waits before it returns one grant.
type slowGrants struct {
	gate.Store
	hash            token.Hash
	looking, resume chan struct{}
}

// Grant implements store.Grants.
func (s *slowGrants) Grant(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	if hash == s.hash {
		close(s.looking)
		<-s.resume
	}
	return s.Store.Grant(ctx, hash, now)
}

// TestShadowEndedWithAnotherFault: a request with another fault does not take an
// ended token of the gate, wherever it is, or a disabled account past shadow. The
// service never sees the token. With a live token, it passes as a call of the
// account.
func TestShadowEndedWithAnotherFault(t *testing.T) {
	t.Parallel()
	w, got := fronting(t, func(c *policy.Config) {
		c.Mode = policy.Shadow
		c.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}", Plan: "small"}
	})
	live, ended := w.account(t, "acc_1"), w.account(t, "acc_2")
	if err := w.db.RevokeKey(t.Context(), "acc_2", "key_acc_2", noon); err != nil {
		t.Fatal(err)
	}
	if _, err := storetest.PutAccount(t.Context(), w.db.Book, store.Account{ID: "gone", Plan: "small", Disabled: true}); err != nil {
		t.Fatal(err)
	}
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket"}
	const bearer, own, socket = "Authorization: Bearer TOKEN", "X-Api-Key: TOKEN", "Sec-WebSocket-Protocol: tollgate.bearer.TOKEN"
	for _, c := range []struct {
		name, target, identity string
		headers                []string
	}{
		{"in Authorization", convert + "?api_key=1", "", []string{bearer}},
		{"in the token header", convert + "?api_key=1", "", []string{own}},
		{"in the token header, and another scheme", convert, "", []string{own, "Authorization: Basic eDp5"}},
		{"second of two fields", convert, "", []string{"Authorization: Bearer junk", bearer}},
		{"an upgrade", convert, "", append(upgrade, bearer)},
		{"a method in the query", convert + "?_method=PUT", "", []string{bearer}},
		{"a subprotocol, and a token header", "/api/rates/EUR", "", append(upgrade, socket, "X-Api-Key: x")},
		{"a disabled identity, and a token in the query", convert + "?api_key=1", "gone", nil},
	} {
		for _, text := range []string{live, ended} {
			w.mu.Lock()
			w.identity = c.identity
			w.mu.Unlock()
			var headers []string
			for _, line := range c.headers {
				headers = append(headers, strings.Replace(line, "TOKEN", text, 1))
			}
			got.header = nil
			answer, err := w.ask("GET", c.target, "", headers...)
			if passes := text == live && c.identity == ""; err != nil || (answer.Code == http.StatusUnauthorized) == passes ||
				(got.header.Get("Tollgate-Account") == "acc_1") != passes || !passes && got.header != nil {
				t.Errorf("%s, live %t: got %d, %v; the service got %v", c.name, text == live, answer.Code, err, got.header)
			}
		}
	}
}

// Threat: a key that was imported is ended, or its account is disabled, and the
// gate is in mode shadow. Expectation: it is refused as one of the gate's own,
// also with another fault, and reported with its account. A foreign token that
// the gate does not know may be one of the service, and passes.
func TestShadowEndedForeignKeys(t *testing.T) {
	t.Parallel()
	w, got := fronting(t, func(c *policy.Config) { c.Mode = policy.Shadow })
	w.account(t, "acc_1")
	w.account(t, "acc_2")
	for account, text := range map[string]string{"acc_1": "a-live-token-of-another-gate", "acc_2": "a-token-of-a-disabled-account"} {
		w.foreignKey(t, account, "key_"+text, token.Foreign(text))
	}
	w.foreignKey(t, "acc_1", "key_revoked", token.Prefixed("12", token.Foreign("a-revoked-token-of-another")))
	if err := w.db.RevokeKey(t.Context(), "acc_1", "key_revoked", noon); err != nil {
		t.Fatal(err)
	}
	if _, err := storetest.PutAccount(t.Context(), w.db.Book, store.Account{ID: "acc_2", Plan: "small", Disabled: true}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"a-live-token-of-another-gate": "acc_1", "a-token-of-a-disabled-account": "401", "12|a-revoked-token-of-another": "401", "a-token-of-the-service-itself": "",
	} {
		for _, request := range []struct{ target, header, code string }{
			{convert, "Authorization: Bearer " + text, "invalid_token"}, {convert, "X-Api-Key: " + text, "invalid_token"}, {convert + "?api_key=1", "Authorization: Bearer " + text, "invalid_request"},
		} {
			got.header, w.refused = nil, nil
			answer := w.send(t, "GET", request.target, "", request.header)
			refused := answer.Code == http.StatusUnauthorized
			if refused != (want == "401") || refused != (got.header == nil) || !refused && got.header.Get("Tollgate-Account") != want {
				t.Errorf("%s, %s: got %d %s, the service got %v", request.target, request.header, answer.Code, answer.Body, got.header)
			}
			name, value, _ := strings.Cut(request.header, ": ")
			if want == "" && (len(w.refused) != 1 || !strings.HasSuffix(w.refused[0], " "+request.code) || got.header.Get(name) != value) {
				t.Errorf("%s, %s: reported %q, want %s; the service got %v", request.target, request.header, w.refused, request.code, got.header)
			}
		}
	}
}
