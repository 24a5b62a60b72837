package gate_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestRefusedCallsAreRecorded: the account sees each call with a valid token
// that the gate refused, with its status and code. The call is not counted, and
// the upstream does not see it.
func TestRefusedCallsAreRecorded(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"convert": number(0), "batch": number(3), "usage": number(5)})
	w.next = noUpstream(t)
	all := w.account(t, "acc_1")
	few := w.key(t, store.Key{ID: "key_few", Account: "acc_1", Name: "few", Abilities: []string{"usage"}})
	away := w.key(t, store.Key{ID: "key_away", Account: "acc_1", Name: "away", Addresses: networks("203.0.113.0/24")})
	for i, c := range []struct {
		bearer, method, target, body, header string
		status                               int
		key, code                            string
	}{
		{few, "GET", convert, "", "", 403, "key_few", "insufficient_scope"},
		{few, "HEAD", convert, "", "", 403, "key_few", "insufficient_scope"},
		{away, "GET", convert, "", "", 403, "key_away", "address_not_allowed"},
		{all, "GET", "/api/rates/EUR", "", "", 403, "key_acc_1", "not_entitled"},
		{all, "GET", "/api/names/@types%2fnode", "", "", 403, "key_acc_1", "not_entitled"},
		{all, "GET", convert, "", "", 429, "key_acc_1", "quota_exceeded"},
		{all, "POST", batchPath, items(4), jsonType, 403, "key_acc_1", "cost_above_limit"},
		{all, "POST", batchPath, "[]", jsonType, 400, "key_acc_1", "invalid_request"},
		{all, "POST", batchPath, strings.Repeat(" ", 2<<10), jsonType, 413, "key_acc_1", "body_too_large"},
		{all, "POST", batchPath, items(1), "Content-Type: text/plain", 415, "key_acc_1", "unsupported_media_type"},
		{all, "GET", "/api/usage?days=x", "", "", 400, "key_acc_1", "invalid_request"},
	} {
		answer := w.send(t, c.method, c.target, c.body, "Authorization: Bearer "+c.bearer, c.header)
		recent, err := w.db.Recent(t.Context(), "acc_1", noon)
		if err != nil || answer.Code != c.status || len(recent) != i+1 {
			t.Fatalf("%s %s: got %d %s, and %d recent calls (%v), want %d and %d", c.method, c.target, answer.Code, answer.Body, len(recent), err, c.status, i+1)
		}
		last := recent[0]
		if c.method != "HEAD" && !strings.Contains(answer.Body.String(), `"code":"`+last.Code+`"`) {
			t.Errorf("%s %s: recorded the code %q of %s", c.method, c.target, last.Code, answer.Body)
		}
		path, _, _ := strings.Cut(c.target, "?")
		if last.Status != c.status || last.Key != c.key || last.Code != c.code || last.Method != c.method || last.Path != path {
			t.Errorf("%s %s: recorded %+v, want %+v", c.method, c.target, last, c)
		}
		w.set(w.clock().Add(1)) // later calls are newer
	}
	for _, endpoint := range []string{"convert", "rates", "batch", "usage"} {
		if n := w.used(t, "acc_1", endpoint, noon); n != 0 {
			t.Errorf("%s: counted %d", endpoint, n)
		}
	}
	key, err := w.db.Key(t.Context(), "acc_1", "key_few")
	if err != nil || key.LastUsedAt.IsZero() {
		t.Errorf("the key: got %+v (%v)", key, err)
	}
}

// TestNoRecordOfUnknownTokens: a request whose account is not known, or that
// the gate cannot check, is in no list.
func TestNoRecordOfUnknownTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.next = noUpstream(t)
	bearer := w.account(t, "acc_1")
	revoke(t, w)
	for _, header := range []string{"", "Authorization: Bearer " + bearer, "Authorization: Bearer nonsense"} {
		w.send(t, "GET", convert, "", header)
	}
	if recent, err := w.db.Recent(t.Context(), "acc_1", noon); len(recent) != 0 || err != nil {
		t.Errorf("got %+v (%v)", recent, err)
	}
}

// send takes a request through the gate. Empty headers are left out.
func (w *world) send(t testing.TB, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	var sent []string
	for _, h := range headers {
		if h != "" {
			sent = append(sent, h)
		}
	}
	answer, err := w.ask(method, target, body, sent...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
