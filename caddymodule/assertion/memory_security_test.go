package assertion

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/heaptest"
)

// The threat: a client with one key fills the memory of gate and service with
// assertions. It chooses the Host header where the site has no host name.

// hosts are different host names of a length.
func hosts(n, length int) (all []string) {
	for i := range n {
		all = append(all, string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676)})+strings.Repeat("&", length-3))
	}
	return all
}

// TestAssertionsAreBounded: gate and service keep 16 MiB of assertions each,
// however long these are. The test fills a sixteenth of that.
func TestAssertionsAreBounded(t *testing.T) {
	const part = 1 << 20
	if maxCached != 16*part {
		t.Errorf("docs/guarantees.md says 16 MiB, it is %d", maxCached)
	}
	large := ada
	large.Abilities = strings.Repeat("convert rates ", 600)
	for name, c := range map[string]struct {
		hosts []string
		by    Caller
	}{
		"longer than a name": {hosts(50, 8<<10), ada},
		"as long as a name":  {hosts(400, maxHost), ada},
		"large abilities":    {hosts(150, 20), large},
	} {
		heaptest.Holds(t, "signer, "+name, part+part/4, func() any {
			s := newSigner(t, secret)
			s.signed = newCache[uint64, *signed](part)
			for _, host := range c.hosts {
				s.Call([32]byte{}, host, c.by, noon)
			}
			return s
		})
		heaptest.Holds(t, "verifier, "+name, part+part/4, func() any {
			s, v := newSigner(t, secret), newVerifier(t, noon)
			v.verified = newCache[string, Claims](part)
			v.accepts = func(string) bool { return true }
			for _, host := range c.hosts {
				if _, err := v.Verify(s.Call([32]byte{}, host, c.by, noon), Call); err != nil {
					t.Fatal(err)
				}
			}
			return v
		})
	}
}

// TestOnlyAcceptedAreKept: a service keeps no assertion that it refuses, also
// if the gate has signed it.
func TestOnlyAcceptedAreKept(t *testing.T) {
	t.Parallel()
	s, v := newSigner(t, secret), newVerifier(t, noon)
	for _, text := range []string{
		s.Call([32]byte{}, "www.example.com", ada, noon), s.Login("api.example.com", noon),
		s.Call([32]byte{}, "api.example.com", ada, noon.Add(-Lifetime-Leeway)),
	} {
		if _, err := v.Verify(text, Call); err == nil {
			t.Error("a wrong assertion is accepted")
		}
	}
	if n := len(v.verified.values); n != 0 {
		t.Errorf("%d refused assertions are kept", n)
	}
}
