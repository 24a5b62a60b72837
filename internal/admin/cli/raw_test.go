package cli_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestRawAccount: operators see what the store has of an account, with the
// hashes of tokens and without tokens.
func TestRawAccount(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", "Ada Lovelace")
	created := s.ok(t, "key", "create", "acc_1", "--name", "ci")
	revoked := ids.FindString(s.ok(t, "key", "create", "acc_1", "--name", "old"))
	s.ok(t, "key", "revoke", "acc_1", revoked)
	type key struct {
		ID        string
		Hash      string
		RevokedAt string `json:"revoked_at"`
	}
	var document struct {
		Account struct {
			ID, Plan, Label string
			Keys            []key
		}
	}
	out := s.ok(t, "account", "show", "Ada Lovelace", "--raw")
	if err := json.Unmarshal([]byte(out), &document); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a := document.Account
	if a.ID != "acc_1" || a.Plan != "starter" || a.Label != "Ada Lovelace" || len(a.Keys) != 2 || strings.Contains(out, tokens.FindString(created)) {
		t.Errorf("got %s", out)
	}
	for _, k := range a.Keys {
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(k.Hash) || (k.RevokedAt != "") != (k.ID == revoked) {
			t.Errorf("got the key %+v", k)
		}
	}
	if out, complaints, err := s.run(t, "account", "show", "stranger", "--raw"); err == nil || out != "" || !strings.Contains(complaints, "there is no account with this id or label") {
		t.Errorf("an unknown account: got %v, %s%s", err, out, complaints)
	}
}
