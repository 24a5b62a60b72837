package gate_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/gate"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

func networks(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// from makes a call from an address.
func (w *world) from(t *testing.T, address, bearer string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := marked(httptest.NewRequest("GET", convert, nil))
	r.RemoteAddr = address
	r.Header.Set("Authorization", "Bearer "+bearer)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	answer := httptest.NewRecorder()
	if err := w.gate.Serve(answer, r, w.next); err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestAddressesOfKeys: a stolen key does not work from elsewhere. Nothing is
// counted, and no header of the client changes its address.
func TestAddressesOfKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account(t, "acc_1")
	bearer := w.key(t, store.Key{ID: "key_2", Account: "acc_1", Name: "own", Addresses: networks("203.0.113.0/24", "2001:db8::/64", "fe80::1/128")})
	upstream := w.next
	w.next = noUpstream(t)
	for _, address := range []string{
		"203.0.112.255", "203.0.114.0", "::ffff:203.0.114.1", "::203.0.113.7", "2001:db8:0:1::1", "fe80::2", "", "@", "example.com", "203.0.113.7, 192.0.2.1", "203.0.113.007", "203.0.113.0/24",
	} {
		got := w.from(t, address, bearer, "X-Forwarded-For: 203.0.113.7", "X-Real-Ip: 203.0.113.7", "Forwarded: for=203.0.113.7", "Cf-Connecting-Ip: 203.0.113.7")
		message := "The key may not be used from this address."
		if seen, err := netip.ParseAddr(address); err == nil {
			message = "The key may not be used from the address " + seen.Unmap().String() + "."
		}
		if got.Code != http.StatusForbidden || got.Body.String() != `{"message":"`+message+`","code":"address_not_allowed"}` {
			t.Errorf("from %q: got %d %s", address, got.Code, got.Body)
		}
	}
	plan(t, w, "acc_1", "none") // the address is checked before the plan
	if got := w.from(t, "203.0.112.255", bearer); !strings.Contains(got.Body.String(), "address_not_allowed") {
		t.Errorf("without access: got %d %s", got.Code, got.Body)
	}
	plan(t, w, "acc_1", "small")
	if n := w.used(t, "acc_1", "convert", noon); n != 0 || w.outcomes["convert not_entitled"] != 13 {
		t.Errorf("counted %d, outcomes %v", n, w.outcomes)
	}
	w.next = upstream
	for _, address := range []string{"203.0.113.0", "203.0.113.255", "::ffff:203.0.113.7", "2001:db8::1", "fe80::1%eth0"} {
		if got := w.from(t, address, bearer); got.Code != http.StatusOK {
			t.Errorf("from %q: got %d %s", address, got.Code, got.Body)
		}
	}
}

// plan changes the plan of an account.
func plan(t *testing.T, w *world, id, plan string) {
	t.Helper()
	if _, err := w.db.ChangeAccount(t.Context(), id, func(a *store.Account, _ bool) error {
		a.Plan = plan
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// recording is a store that keeps the last record: stores write records later.
type recording struct {
	gate.Store
	last *store.Record
}

func (r recording) Record(record store.Record) { *r.last = record }

// TestRecordedAddress: the record of a call has the client's address, as far as
// it is known.
func TestRecordedAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	var last store.Record
	w.store = recording{w.store, &last}
	for _, c := range []struct {
		address string
		want    netip.Addr
	}{
		{"203.0.113.7", netip.MustParseAddr("203.0.113.7")}, {"::ffff:203.0.113.8", netip.MustParseAddr("203.0.113.8")},
		{"fe80::1%eth0", netip.MustParseAddr("fe80::1")}, {"@", netip.Addr{}}, {"203.0.113.9", netip.MustParseAddr("203.0.113.9")},
		{"203.0.113.10", netip.MustParseAddr("203.0.113.10")}, // refused
	} {
		last = store.Record{}
		w.from(t, c.address, bearer)
		if last.Key != "key_acc_1" || last.From != c.want {
			t.Errorf("%s: got %+v, want %v", c.address, last, c.want)
		}
	}
}
