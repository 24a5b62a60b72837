package cli_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestFindKey: a token or its SHA-256 leads to its account and key, whatever
// became of the key. The token is in no request and in no output.
func TestFindKey(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", "Ann & Sons")
	var key api.IssuedKey
	if err := json.Unmarshal([]byte(s.ok(t, "key", "create", "acc_1", "--name", "ci", "--ttl", "1h", "--json")), &key); err != nil {
		t.Fatal(err)
	}
	s.Opened().Record(store.Record{Account: "acc_1", Key: key.ID, At: s.Now(), Endpoint: "convert", Status: 200, From: netip.MustParseAddr("192.0.2.9")})
	sum := sha256.Sum256([]byte(key.Token))
	inputs := []string{key.Token, "  " + key.Token + "\r\n", hex.EncodeToString(sum[:]), strings.ToUpper(hex.EncodeToString(sum[:])) + "\n"}
	want := func(state string) {
		t.Helper()
		for _, s.input = range inputs {
			urls := s.watch(t)
			out := s.ok(t, "key", "find")
			for _, line := range []string{"State      " + state, "Account    acc_1", "Label      Ann & Sons", "Key        " + key.ID, "Name       ci", "Token      " + key.Hint, "From       192.0.2.9"} {
				if !strings.Contains(out, line+"\n") {
					t.Errorf("%s: got %s, want the line %s", state, out, line)
				}
			}
			if text := out + fmt.Sprint(*urls); strings.Contains(text, key.Token) || strings.Contains(text, hex.EncodeToString(sum[:])) {
				t.Errorf("%s: the token or its hash is in %s", state, text)
			}
		}
	}
	want("live")
	s.ok(t, "account", "set", "acc_1", "--disabled")
	want("disabled")
	s.Advance(time.Hour)
	want("expired")
	s.ok(t, "key", "revoke", "acc_1", key.ID)
	want("revoked")
	if out := s.ok(t, "key", "find", "--json"); !strings.HasPrefix(out, `{"account":{"account":"acc_1",`) || !strings.Contains(out, `"state":"revoked","key":{"id":"`+key.ID+`"`) {
		t.Errorf("got %s", out)
	}
	s.ok(t, "account", "delete", "acc_1")
	for input, want := range map[string]string{
		inputs[0]:                   "No key or login token has this SHA-256, or it ended too long ago: a key is kept for 90 days after its end, at most the last 100 of an account.",
		inputs[2]:                   "No key or login token has this SHA-256, or it ended too long ago: a key is kept for 90 days after its end, at most the last 100 of an account.",
		"a-token-of-another-system": "No key or login token has this SHA-256, or it ended too long ago: a key is kept for 90 days after its end, at most the last 100 of an account.",
		key.Token[:50] + "000":      "the token is mistyped or cut off",
		"tgk_":                      "the token is mistyped or cut off",
		"":                          "standard input has neither a token nor its SHA-256",
		"two words":                 "standard input has neither a token nor its SHA-256",
	} {
		s.input = input
		out, complaints, err := s.run(t, "key", "find")
		if err == nil || out != "" || !strings.Contains(complaints, want) || s.input != "" && strings.Contains(complaints, s.input+" ") {
			t.Errorf("%q: got %v, %s%s, want %s", s.input, err, out, complaints, want)
		}
	}
}

// TestFindForeignKey: an imported token is found with and without its prefix, as
// the gate reads it.
func TestFindForeignKey(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	rest := strings.Repeat("x", 30)
	prefixed, _ := token.SplitPrefix("12|" + rest)
	for id, hash := range map[string]token.Hash{"key_split": prefixed, "key_whole": token.Foreign("7|" + rest), "key_hex": token.Foreign(strings.Repeat("a", 64))} {
		key := store.Key{ID: id, Account: "acc_1", Kind: token.Key, Name: id, CreatedAt: s.Now()}
		if err := s.Opened().CreateKey(t.Context(), key, hash); err != nil {
			t.Fatal(err)
		}
	}
	for text, id := range map[string]string{"12|" + rest: "key_split", "7|" + rest: "key_whole", strings.Repeat("a", 64): "key_hex"} {
		s.input = text
		if out := s.ok(t, "key", "find"); !strings.Contains(out, id) {
			t.Errorf("%s: got %s, want %s", text, out, id)
		}
	}
	// A token that moved to other accounts. When they are deleted, only the
	// documents of accounts have it, and the last one that is left is meant.
	find := func(state, id string) {
		t.Helper()
		s.input = "7|" + rest
		if out := s.ok(t, "key", "find"); !strings.Contains(out, "State      "+state+"\n") || !strings.Contains(out, "Key        "+id+"\n") {
			t.Errorf("got %s, want the %s key %s", out, state, id)
		}
	}
	s.ok(t, "key", "revoke", "acc_1", "key_whole")
	for _, account := range []string{"acc_2", "acc_3"} {
		s.Advance(time.Minute)
		s.ok(t, "account", "set", account, "--plan", "starter")
		moved := store.Key{ID: "key_" + account, Account: account, Kind: token.Key, Name: "moved", CreatedAt: s.Now()}
		if err := s.Opened().CreateKey(t.Context(), moved, token.Foreign("7|"+rest)); err != nil {
			t.Fatal(err)
		}
		find("live", moved.ID)
		s.ok(t, "key", "revoke", account, moved.ID)
	}
	s.ok(t, "account", "delete", "acc_3")
	find("revoked", "key_acc_2")
	s.ok(t, "account", "delete", "acc_2")
	find("revoked", "key_whole")
}

// TestSearchToken: the last 4 characters of a token find its account, in the
// case of the token.
func TestSearchToken(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, account := range []string{"acc_1", "acc_2"} {
		s.ok(t, "account", "set", account, "--plan", "starter")
		key := store.Key{ID: "key_" + account, Account: account, Kind: token.Key, Name: "ci", CreatedAt: s.Now(), Hint: "tgk_…aZ9" + account[4:]}
		if err := s.Opened().CreateKey(t.Context(), key, token.Foreign(account)); err != nil {
			t.Fatal(err)
		}
	}
	s.ok(t, "key", "revoke", "acc_2", "key_acc_2")
	for text, want := range map[string]string{"aZ91": "acc_1", "aZ92": "acc_2", "az91": "", "Z91": "", "tgk_": ""} {
		out := s.ok(t, "account", "list", "--search", text)
		if found := strings.Contains(out, "acc_"); found != (want != "") || !strings.Contains(out, want) {
			t.Errorf("%s: got %s, want %q", text, out, want)
		}
	}
}
