package gate_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestEndedTokens: the operator learns why a token that the store knows is
// refused, and whose it is. A client gets the answer for an unknown token, and one
// without a token that of its account.
func TestEndedTokens(t *testing.T) {
	t.Parallel()
	foreign := "12|" + strings.Repeat("x", 30)
	for _, mode := range []policy.Mode{policy.Enforce, policy.Shadow} {
		w, _ := fronting(t, func(c *policy.Config) {
			c.Mode, c.Identity = mode, &policy.IdentityConfig{Placeholder: "{http.auth.user.id}"}
		})
		revoked, disabled := w.account(t, "acc_1"), w.account(t, "acc_3")
		w.account(t, "acc_2")
		expired := w.key(t, store.Key{ID: "key_2", Account: "acc_2", Name: "short", ExpiresAt: noon.Add(time.Minute)})
		w.account(t, "acc_4")
		rest, _ := token.SplitPrefix(foreign)
		w.foreignKey(t, "acc_4", "key_4", rest)
		for account, key := range map[string]string{"acc_1": "key_acc_1", "acc_4": "key_4"} {
			if err := w.db.RevokeKey(t.Context(), account, key, noon); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := storetest.PutAccount(t.Context(), w.db.Book, store.Account{ID: "acc_3", Plan: "small", Disabled: true}); err != nil {
			t.Fatal(err)
		}
		w.set(noon.Add(time.Minute))
		unknown := w.get(t, convert, newToken(t).Reveal())
		if unknown.Code != 401 {
			t.Fatalf("an unknown token: got %d", unknown.Code)
		}
		for _, test := range []struct{ token, identity, reported, ended string }{
			{revoked, "", "acc_1 convert invalid_token revoked", "acc_1 key_acc_1"},
			{expired, "", "acc_2 convert invalid_token expired", "acc_2 key_2"},
			{disabled, "", "acc_3 convert invalid_token disabled", "acc_3 key_acc_3"},
			{foreign, "", "acc_4 convert invalid_token revoked", "acc_4 key_4"},
			{"", "acc_3", "acc_3 convert invalid_token disabled", "acc_3 "},
		} {
			w.refused, w.ended, w.identity = nil, nil, test.identity
			var answer *httptest.ResponseRecorder
			if test.token != "" {
				answer = w.get(t, convert, test.token)
			} else {
				answer = w.send(t, "GET", convert, "")
			}
			if !slices.Equal(w.refused, []string{test.reported}) || !slices.Equal(w.ended, []string{test.ended}) {
				t.Errorf("%s: reported %q of %q, want %q of %q", mode, w.refused, w.ended, test.reported, test.ended)
			}
			if mode == policy.Shadow && test.token == foreign {
				continue // it may be a token of the service
			}
			body := unknown.Body.String()
			if test.identity != "" { // no token was sent
				body = strings.Replace(body, "The token is not valid. It may be mistyped, expired or revoked.", "The account is disabled or was deleted.", 1)
			}
			if answer.Code != 401 || answer.Body.String() != body || len(answer.Header()) != len(unknown.Header()) {
				t.Errorf("%s: got %d %s %v, want the answer for an unknown token", test.reported, answer.Code, answer.Body, answer.Header())
			}
		}
	}
}

// TestRequestID: the JSON of a refusal has the id of its request, and so has the
// recent call. An admitted call has one if something else shows it.
func TestRequestID(t *testing.T) {
	t.Parallel()
	w := limited(t)
	w.requestID = "d3b0"
	bearer := w.account(t, "acc_1")
	w.next = handlerFunc(func(http.ResponseWriter, *http.Request) error { return failure(502) })
	want := func(status int, body, recorded string) {
		t.Helper()
		w.set(w.clock().Add(time.Second))
		answer := w.get(t, convert, bearer)
		recent, err := w.db.Recent(t.Context(), "acc_1", noon)
		if err != nil || answer.Code != status || recent[0].Status != status || recent[0].RequestID != recorded {
			t.Fatalf("got %d, recorded %+v (%v), want %d with the id %q", answer.Code, recent, err, status, recorded)
		}
		if text := answer.Body.String(); !strings.HasSuffix(text, body) || answer.Header().Get("Content-Length") != strconv.Itoa(len(text)) || !json.Valid([]byte(text)) {
			t.Errorf("got %s, %v, want the end %s", text, answer.Header(), body)
		}
	}
	want(502, `"code":"upstream_unreachable"}`, "")
	w.showsID = true
	want(502, `"code":"upstream_unreachable","request_id":"d3b0"}`, "d3b0")
	w.showsID = false
	w.override(t, "acc_1", override(store.Limit{Endpoint: "convert", Period: store.Day, Max: 0}, 0))
	want(429, `,"request_id":"d3b0"}`, "d3b0")
	for _, line := range []string{"Authorization: Bearer nonsense", "Accept: text/html", "Content-Type: application/grpc"} {
		answer := w.send(t, "GET", convert, "", line)
		if strings.Contains(answer.Body.String(), "d3b0") { // a 401 has the same bytes for all
			t.Errorf("%s: got %s", line, answer.Body)
		}
	}
	w.showsID = true
	if answer := w.send(t, "GET", "/api/nothing", ""); !strings.HasSuffix(answer.Body.String(), `"code":"not_found","request_id":"d3b0"}`) {
		t.Errorf("got %s", answer.Body)
	}
}
