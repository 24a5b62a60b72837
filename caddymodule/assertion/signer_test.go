package assertion

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"testing"
	"time"
)

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func newSigner(t testing.TB, secret string) *Signer {
	t.Helper()
	signer, err := NewSigner(newKey(t, secret))
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

var (
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ada  = Caller{Account: "acc_1", Plan: "starter", Key: "key_1", Abilities: "convert rates"}
)

// An assertion is used again for a minute, and for what it says only.
func TestSignedOnceAMinute(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host   string
		change func(*Caller)
		after  time.Duration
		same   bool
	}{
		"at once":           {same: true},
		"after 59 seconds":  {after: 59 * time.Second, same: true},
		"after a minute":    {after: time.Minute},
		"clock set back":    {after: -time.Second},
		"another host":      {host: "www.example.com"},
		"another account":   {change: func(c *Caller) { c.Account = "acc_2" }},
		"another key":       {change: func(c *Caller) { c.Key = "key_2" }},
		"another plan":      {change: func(c *Caller) { c.Plan = "business" }},
		"fewer abilities":   {change: func(c *Caller) { c.Abilities = "convert" }},
		"all that is empty": {change: func(c *Caller) { *c = Caller{Account: "acc_1"} }},
	} {
		s := newSigner(t, secret)
		first := s.Call([32]byte{}, "api.example.com", ada, noon)
		by, host := ada, c.host
		if c.change != nil {
			c.change(&by)
		}
		if host == "" {
			host = "api.example.com"
		}
		got := s.Call([32]byte{}, host, by, noon.Add(c.after))
		if (got == first) != c.same {
			t.Errorf("%s: the same assertion: got %t, want %t", name, got == first, c.same)
		}
	}
	s := newSigner(t, secret)
	if login := s.Login("api.example.com", noon); login == s.Call([32]byte{1}, "api.example.com", ada, noon) || login != s.Login("api.example.com", noon.Add(59*time.Second)) {
		t.Error("logins of one host and minute differ, or are calls")
	}
}

// A full cache drops assertions and keeps the newest. A Signer keeps none for a
// host that a client made up to fill it.
func TestFullCache(t *testing.T) {
	t.Parallel()
	s := newSigner(t, secret)
	s.signed = newCache[uint64, *signed](100 << 10)
	for i := range 250 {
		s.Call([32]byte{byte(i)}, "api.example.com", Caller{Account: "acc_1", Key: fmt.Sprint("key_", i)}, noon)
		size := 0
		for _, kept := range s.signed.values {
			size += kept.size
		}
		if n := len(s.signed.values); size != s.signed.size || size > 100<<10 || n < min(i+1, 100) {
			t.Fatalf("%d assertions of %d bytes are kept after %d, counted as %d bytes", n, size, i+1, s.signed.size)
		}
	}
	newest := s.Call([32]byte{}, "api.example.com", ada, noon)
	if s.Call([32]byte{}, "api.example.com", ada, noon) != newest {
		t.Error("the newest is not kept")
	}
	s = newSigner(t, secret)
	s.Call([32]byte{}, strings.Repeat("a", maxHost), ada, noon)
	s.Call([32]byte{}, strings.Repeat("a", maxHost+1), ada, noon)
	if n := len(s.signed.values); n != 1 {
		t.Errorf("%d hosts are kept, want the shorter one", n)
	}
}

// Many goroutines get assertions that are all valid.
func TestSignerConcurrently(t *testing.T) {
	t.Parallel()
	s, v := newSigner(t, secret), newVerifier(t, noon)
	s.signed = newCache[uint64, *signed](8 << 10)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				by := Caller{Account: fmt.Sprint("acc_", (g+i)%16), Plan: "starter", Key: "key_1", Abilities: "convert"}
				claims, err := v.Verify(s.Call([32]byte{}, "api.example.com", by, noon), Call)
				if err != nil || claims.Account != by.Account {
					t.Errorf("got %+v, %v", claims, err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestAudience(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"example.com": "example.com", "Example.COM:8080": "example.com", "[2001:DB8::1]:443": "2001:db8::1", "[::1]": "::1",
		"127.0.0.1:80": "127.0.0.1", "": "", "example.com.": "example.com.", "example.com:": "example.com",
	} {
		if got := Audience(host); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}

// TestSharedPlace: two hosts whose assertions have one place in the cache get
// each their own.
func TestSharedPlace(t *testing.T) {
	t.Parallel()
	s := newSigner(t, secret)
	const one, two = "one.example.com", "two.example.com"
	var id [32]byte
	binary.LittleEndian.PutUint64(id[:], maphash.String(s.seed, one)^maphash.String(s.seed, two))
	first, second := s.Call([32]byte{}, one, ada, noon), s.Call(id, two, ada, noon)
	if len(s.signed.values) != 1 {
		t.Fatal("the two have places of their own")
	}
	if first == second {
		t.Errorf("%s gets the assertion of %s", two, one)
	}
}

// BenchmarkSign signs a new assertion, as for the first call of a key in a
// minute.
func BenchmarkSign(b *testing.B) {
	s := newSigner(b, secret)
	for at := int64(0); b.Loop(); at++ {
		s.sign(Claims{Audience: "api.example.com", Account: ada.Account, Plan: ada.Plan, Abilities: ada.Abilities, Key: ada.Key}, at)
	}
}
