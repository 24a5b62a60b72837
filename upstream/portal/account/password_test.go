package account

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// cheap is the least that argon2id can cost; the tests are about
// everything else.
var cheap = Cost{MemoryKiB: 8, Passes: 1, Lanes: 1}

func TestHashFormat(t *testing.T) {
	t.Parallel()
	hash, err := NewHasher(DefaultCost(), 1).Hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`)
	if !want.MatchString(hash) {
		t.Errorf("got %q, want a match of %v", hash, want)
	}
}

// A hash that another implementation made (the reference one, as its
// command line prints it for "password" and "somesalt") verifies.
func TestVerifyForeignHash(t *testing.T) {
	t.Parallel()
	const hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	h := NewHasher(cheap, 1)
	for password, want := range map[string]bool{"password": true, "Password": false} {
		got, err := h.Verify(t.Context(), hash, password)
		if err != nil || got != want {
			t.Errorf("Verify(%q) = %v, %v; want %v", password, got, err, want)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxPasswordBytes)
	cases := map[string]struct {
		chosen, given string
		want          bool
	}{
		"same":                      {"correct horse", "correct horse", true},
		"space behind":              {"correct horse", "correct horse ", false},
		"longest and more":          {long, long + "x", false},
		"composed and decomposed":   {"caf\u00e9 au lait", "cafe\u0301 au lait", true},
		"invalid UTF-8":             {"correct horse", "correct horse\xff", false},
		"empty":                     {"correct horse", "", false},
		"compatibility stays apart": {"\ufb01sh and chips", "fish and chips", false},
	}
	h := NewHasher(cheap, 4)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hash, err := h.Hash(t.Context(), c.chosen)
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.Verify(t.Context(), hash, c.given)
			if err != nil || got != c.want {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// An account that does not exist takes the work of one that does: the
// dummy is a hash of the present cost, and no password opens it.
func TestVerifyUnknownAccount(t *testing.T) {
	t.Parallel()
	h := NewHasher(cheap, 1)
	cost, salt, key, err := decodeHash(h.dummy)
	if err != nil || cost != cheap || len(salt) != saltLength || len(key) != keyLength {
		t.Fatalf("the dummy is %q (%v), want one of the present cost", h.dummy, err)
	}
	ok, err := h.Verify(t.Context(), "", "correct horse")
	if ok || err != nil {
		t.Errorf("got %v, %v; want false", ok, err)
	}
	synctest.Test(t, func(t *testing.T) {
		h := NewHasher(cheap, 1)
		h.slots <- struct{}{}
		if _, err := h.Verify(t.Context(), "", "correct horse"); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want ErrBusy: the dummy did not ask for its turn to hash", err)
		}
	})
}

// Hashes that this program did not write are refused before any memory is
// taken for them.
func TestDecodeHashRefuses(t *testing.T) {
	t.Parallel()
	const good = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	if _, _, _, err := decodeHash(good); err != nil {
		t.Fatal(err)
	}
	for name, replace := range map[string][2]string{
		"argon2i":             {"argon2id", "argon2i"},
		"four GiB":            {"m=8", "m=4194304"},
		"many passes":         {"t=1", "t=1000"},
		"too many lanes":      {"p=1", "p=255"},
		"leading zero":        {"m=8", "m=08"},
		"no salt":             {"c29tZXNhbHQ", ""},
		"line break in salt":  {"c29tZXNhbHQ", "c29t\nZXNhbHQ"},
		"no key":              {"CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc", ""},
		"something before it": {"$argon2id", " $argon2id"},
	} {
		if _, _, _, err := decodeHash(strings.Replace(good, replace[0], replace[1], 1)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// At most as many hashes run as there are slots; who waits too long is
// sent away, and who leaves early is told so.
func TestHasherIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHasher(cheap, 2)
		h.slots <- struct{}{}
		if _, err := h.Hash(t.Context(), "correct horse"); err != nil {
			t.Errorf("one slot is free: %v", err)
		}
		h.slots <- struct{}{}

		began := time.Now()
		if _, err := h.Hash(t.Context(), "correct horse"); !errors.Is(err, ErrBusy) {
			t.Errorf("no slot is free: got %v, want ErrBusy", err)
		}
		if waited := time.Since(began); waited != busyAfter {
			t.Errorf("waited %v, want %v", waited, busyAfter)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Hash(ctx, "correct horse"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller left: got %v, want its deadline", err)
		}

		time.AfterFunc(busyAfter/2, func() { <-h.slots })
		if _, err := h.Hash(t.Context(), "correct horse"); err != nil {
			t.Errorf("a slot came free in time: %v", err)
		}
	})
}

// Ids have the form by which the gate's commands find typing errors, and do not
// repeat.
func TestNewID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		id := newID()
		if !api.LooksMade(id) || seen[id] {
			t.Fatalf("newID() = %q", id)
		}
		seen[id] = true
	})
}
