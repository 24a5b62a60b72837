package gate_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestTokenPrefix: a token of any word is valid in each place, also that of another
// plan or of an older configuration. A mistyped token of a configured word is
// refused, and not taken for the credentials of another handler or of the service.
// An imported token can begin with the word.
func TestTokenPrefix(t *testing.T) {
	t.Parallel()
	w, got := passwords(t, func(c *policy.Config) {
		c.TokenPrefix, c.Plans[0].TokenPrefix = "acme_live", "acme_test"
		c.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}", Plan: "small", Prefix: "staff."}
	})
	own := w.account(t, "acc_1")
	tokens := map[string]string{"default": own}
	for _, word := range []token.Word{"acme_live", "acme_test", "acme_old"} {
		made, err := word.New(token.Key, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		tokens[string(word)] = made.Reveal()
		key := store.Key{ID: "key_" + string(word), Account: "acc_1", Kind: token.Key, Name: string(word), Abilities: []string{"convert", "rates"}, CreatedAt: noon}
		if err := w.db.CreateKey(t.Context(), key, made.Hash()); err != nil {
			t.Fatal(err)
		}
	}
	const imported = "acme_live_of_another_system"
	w.foreignKey(t, "acc_1", "key_foreign", token.Foreign(imported))
	tokens["imported"] = imported
	w.mu.Lock()
	w.identity = "ann"
	w.mu.Unlock()
	// try sends a call of ann, and returns the status and the account that the
	// service got.
	try := func(target string, headers ...string) (status int, account string) {
		t.Helper()
		if err := w.db.ResetCounts(t.Context(), "acc_1", "", w.gate.Policy.Calendar.At(noon).Day); err != nil {
			t.Fatal(err)
		}
		got.header = nil
		answer, err := w.ask("GET", target, "", headers...)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Code, got.header.Get("Tollgate-Account")
	}
	for name, text := range tokens {
		for place, headers := range map[string][]string{
			"bearer": {"Authorization: Bearer " + text}, "header": {"X-Api-Key: " + text}, "password": {password("any", text)}, "user": {password(text, "x-oauth-basic")},
			"subprotocol": {"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Protocol: tollgate.bearer." + text},
		} {
			status, account := try("/api/rates/EUR", headers...)
			if status != 200 && status != 101 || account != "acc_1" {
				t.Errorf("%s as %s: got %d of %q", name, place, status, account)
			}
		}
		if status, _ := try(convert+"?x="+text, "X-Api-Key: "+own); (status == 400) != (text != imported) {
			t.Errorf("%s in the query: got %d", name, status)
		}
	}
	whole := tokens["acme_live"]
	for _, wrong := range []string{whole[:len(whole)-1], whole + "0", "acme_live_x", "acme_live_login_x", "acme_test_x", "acme_live_" + strings.Repeat("0", 49), "acme_test_" + whole[len("acme_live_"):]} {
		for place, headers := range map[string][]string{
			"bearer": {"Authorization: Bearer " + wrong}, "password": {password("any", wrong)},
		} {
			if status, account := try(convert, headers...); status != 401 || account != "" {
				t.Errorf("the wrong token %s as %s: got %d of %q, want 401", wrong, place, status, account)
			}
		}
		if status, _ := try("/api/rates/EUR", "Authorization: Bearer "+wrong, "X-Api-Key: "+own); status != 400 {
			t.Errorf("the wrong token %s beside another: got %d, want 400", wrong, status)
		}
	}
	if status, account := try(convert, "Authorization: Bearer acme_other_x"); status != 200 || account != "staff.ann" {
		t.Errorf("a token of another handler: got %d of %q, want 200 of staff.ann", status, account)
	}
}
