package assertion

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func newVerifier(t testing.TB, now time.Time) *Verifier {
	t.Helper()
	return NewVerifier(only("api.example.com"), func() time.Time { return now }, newKey(t, secret))
}

func only(host string) func(string) bool { return func(h string) bool { return h == host } }

// forge signs claims as an attacker would with a key of any kind, "none"
// included.
func forge(t *testing.T, algorithm jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	if algorithm == "none" {
		header := `{"alg":"none","kid":"` + kid + `","typ":"JWT"}`
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// right are the claims of a valid call, with changes; nil removes a claim.
func right(changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": "tollgate", "aud": "api.example.com", "sub": "acc_1", "plan": "starter", "scope": "convert", "client_id": "key_1",
		"iat": noon.Unix(), "exp": noon.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// Threat: a client or another service makes or changes an assertion.
func TestForgeries(t *testing.T) {
	t.Parallel()
	key, other := newKey(t, secret), newKey(t, "another secret of 32 characters..")
	valid := forge(t, jose.ES256, key.private, key.public.ID, right(nil))
	if _, err := newVerifier(t, noon).Verify(valid, Call); err != nil {
		t.Fatalf("the valid one: %v", err)
	}
	point, err := key.private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	x := []byte(NewKeySet(key).Keys[0].X)
	parts := strings.Split(valid, ".")
	more := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"tollgate","aud":"api.example.com","sub":"acc_2","iat":0,"exp":9999999999}`))
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"empty":                        {"", ErrMalformed},
		"no token":                     {"acc_1", ErrMalformed},
		"no signature":                 {parts[0] + "." + parts[1] + ".", ErrKey},
		"two parts":                    {parts[0] + "." + parts[1], ErrMalformed},
		"another payload":              {parts[0] + "." + more + "." + parts[2], ErrKey},
		"a signature of zeros":         {parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)), ErrKey},
		"alg none":                     {forge(t, "none", nil, key.public.ID, right(nil)), ErrMalformed},
		"HS256 with the public key":    {forge(t, jose.HS256, point, key.public.ID, right(nil)), ErrMalformed},
		"HS256 with the key's text":    {forge(t, jose.HS256, x, key.public.ID, right(nil)), ErrMalformed},
		"Ed25519 of the same secret":   {forge(t, jose.EdDSA, ed25519.NewKeyFromSeed([]byte(secret)), key.public.ID, right(nil)), ErrMalformed},
		"key of another secret":        {forge(t, jose.ES256, other.private, other.public.ID, right(nil)), ErrKey},
		"that with our id":             {forge(t, jose.ES256, other.private, key.public.ID, right(nil)), ErrKey},
		"without a key id":             {forge(t, jose.ES256, key.private, "", right(nil)), ErrKey},
		"another issuer":               {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"iss": "joker"})), ErrClaims},
		"another host":                 {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"aud": "www.example.com"})), ErrAudience},
		"no host":                      {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"aud": nil})), ErrAudience},
		"several hosts":                {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"aud": []string{"api.example.com", "x"}})), ErrClaims},
		"no end":                       {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"exp": nil})), ErrTime},
		"end as text":                  {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"exp": "9999999999"})), ErrClaims},
		"from the future":              {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"iat": noon.Unix() + 61})), ErrTime},
		"login":                        {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"purpose": "login", "sub": nil})), ErrPurpose},
		"another purpose":              {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"purpose": "x"})), ErrPurpose},
		"no account":                   {forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"sub": nil})), ErrClaims},
		"space behind it":              {valid + " ", ErrMalformed},
		"two of them":                  {valid + "," + valid, ErrMalformed},
		"JSON instead of compact form": {`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, ErrMalformed},
	} {
		v := newVerifier(t, noon)
		for range 2 { // the second time it may have been kept
			if claims, err := v.Verify(c.text, Call); !errors.Is(err, c.want) || claims != (Claims{}) {
				t.Errorf("%s: got %+v, %v; want %v", name, claims, err, c.want)
			}
		}
	}
}

// An assertion of a call opens no login, and one of a login no call.
func TestPurpose(t *testing.T) {
	t.Parallel()
	s, v := newSigner(t, secret), newVerifier(t, noon)
	call, login := s.Call([32]byte{}, "api.example.com", ada, noon), s.Login("api.example.com", noon)
	for _, text := range []string{call, s.Call([32]byte{}, "API.example.COM:8443", ada, noon)} {
		if claims, err := v.Verify(text, Call); err != nil || claims != (Claims{
			Issuer: "tollgate", Audience: "api.example.com", Account: "acc_1", Plan: "starter", Abilities: "convert rates", Key: "key_1",
			IssuedAt: noon.Unix(), ExpiresAt: noon.Unix() + 300,
		}) {
			t.Errorf("call: got %+v, %v", claims, err)
		}
	}
	if claims, err := v.Verify(login, Login); err != nil || claims != (Claims{
		Issuer: "tollgate", Audience: "api.example.com", Purpose: "login", IssuedAt: noon.Unix(), ExpiresAt: noon.Unix() + 300,
	}) {
		t.Errorf("login: got %+v, %v", claims, err)
	}
	if _, err := v.Verify(call, Login); !errors.Is(err, ErrPurpose) {
		t.Errorf("a call opens a login: %v", err)
	}
	if _, err := v.Verify(login, Call); !errors.Is(err, ErrPurpose) {
		t.Errorf("a login opens a call: %v", err)
	}
	key := newKey(t, secret)
	if _, err := v.Verify(forge(t, jose.ES256, key.private, key.public.ID, right(map[string]any{"purpose": "login"})), Login); !errors.Is(err, ErrClaims) {
		t.Errorf("a login of an account: %v", err)
	}
}

// TestPortal: each link is another one, and opens the pages of its account at
// its host. It opens nothing else, and no other assertion opens the pages.
func TestPortal(t *testing.T) {
	t.Parallel()
	s, v, key := newSigner(t, secret), newVerifier(t, noon), newKey(t, secret)
	link, expires := s.Portal("https://api.example.com:8443/portal", "acc_1", noon.Add(999*time.Millisecond))
	claims, err := v.Verify(link, Portal)
	if err != nil || len(claims.ID) < 26 || claims != (Claims{
		Issuer: "tollgate", Audience: "https://api.example.com:8443/portal", Account: "acc_1", Purpose: "portal", ID: claims.ID, IssuedAt: noon.Unix(), ExpiresAt: noon.Unix() + 300,
	}) {
		t.Errorf("got %+v, %v", claims, err)
	}
	if want := noon.Add(5 * time.Minute); !expires.Equal(want) || expires.Location() != time.UTC {
		t.Errorf("it expires at %v, want %v", expires, want)
	}
	again, _ := s.Portal("https://api.example.com/portal", "acc_1", noon)
	if other, err := v.Verify(again, Portal); err != nil || other.ID == claims.ID {
		t.Errorf("a second link has the id %q, %v; the first has %q", other.ID, err, claims.ID)
	}
	if n := len(v.verified.values); n != 0 {
		t.Errorf("%d links are kept", n)
	}
	elsewhere, _ := s.Portal("https://www.example.com/portal", "acc_1", noon)
	signed := func(changes map[string]any) string {
		claims := right(map[string]any{"plan": nil, "scope": nil, "client_id": nil, "purpose": "portal", "jti": "x", "aud": "https://api.example.com/portal"})
		maps.Copy(claims, changes)
		maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
		return forge(t, jose.ES256, key.private, key.public.ID, claims)
	}
	if _, err := v.Verify(signed(nil), Portal); err != nil {
		t.Fatalf("the valid one: %v", err)
	}
	for name, c := range map[string]struct {
		text, purpose string
		want          error
	}{
		"a call":               {s.Call([32]byte{}, "api.example.com", ada, noon), Portal, ErrPurpose},
		"a login":              {s.Login("api.example.com", noon), Portal, ErrPurpose},
		"a link for a call":    {link, Call, ErrPurpose},
		"a link for a login":   {link, Login, ErrPurpose},
		"another host":         {elsewhere, Portal, ErrAudience},
		"for a call's host":    {signed(map[string]any{"aud": "api.example.com"}), Portal, ErrAudience},
		"another page":         {signed(map[string]any{"aud": "https://api.example.com/login"}), Portal, ErrAudience},
		"no page":              {signed(map[string]any{"aud": "https://api.example.com"}), Portal, ErrAudience},
		"a call of a page":     {signed(map[string]any{"purpose": nil, "jti": nil}), Call, ErrAudience},
		"no id":                {signed(map[string]any{"jti": nil}), Portal, ErrClaims},
		"empty id":             {signed(map[string]any{"jti": ""}), Portal, ErrClaims},
		"no account":           {signed(map[string]any{"sub": nil}), Portal, ErrClaims},
		"a call with an id":    {signed(map[string]any{"purpose": nil, "aud": "api.example.com"}), Call, ErrClaims},
		"a login with an id":   {signed(map[string]any{"purpose": "login", "sub": nil, "aud": "api.example.com"}), Login, ErrClaims},
		"another secret":       {forge(t, jose.ES256, newKey(t, secret+"2").private, key.public.ID, right(map[string]any{"purpose": "portal", "jti": "x"})), Portal, ErrKey},
		"a changed signature":  {link[:len(link)-4] + "AAAA", Portal, ErrKey},
		"a link of the future": {signed(map[string]any{"iat": noon.Unix() + 61}), Portal, ErrTime},
	} {
		for range 2 { // the second time it may have been kept
			if claims, err := v.Verify(c.text, c.purpose); !errors.Is(err, c.want) || claims != (Claims{}) {
				t.Errorf("%s: got %+v, %v; want %v", name, claims, err, c.want)
			}
		}
	}
}

// TestPortalExpires: a link is valid for 5 minutes, to the second, also if it
// was verified before. The clock of the gate may be a minute ahead.
func TestPortalExpires(t *testing.T) {
	t.Parallel()
	link, _ := newSigner(t, secret).Portal("https://api.example.com/portal", "acc_1", noon)
	var at time.Time
	v := NewVerifier(only("api.example.com"), func() time.Time { return at }, newKey(t, secret))
	for after, want := range map[time.Duration]error{
		-61 * time.Second: ErrTime, -time.Minute: nil, 0: nil, 5*time.Minute - time.Nanosecond: nil, 5 * time.Minute: ErrTime,
	} {
		at = noon.Add(after)
		if _, err := v.Verify(link, Portal); !errors.Is(err, want) {
			t.Errorf("after %v: got %v, want %v", after, err, want)
		}
	}
}

// Two services with one secret: an assertion for the host of one is not
// valid at the other, unless both accept that host.
func TestTwoServices(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return noon }
	text := newSigner(t, secret).Call([32]byte{}, "api.example.com", ada, noon)
	for host, want := range map[string]error{"api.example.com": nil, "www.example.com": ErrAudience} {
		if _, err := NewVerifier(only(host), now, newKey(t, secret)).Verify(text, Call); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", host, err, want)
		}
	}
}

// Clocks may differ by a minute, and an assertion that was verified once
// expires like any other.
func TestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		text := newSigner(t, secret).Call([32]byte{}, "api.example.com", ada, began.Add(time.Minute))
		v := NewVerifier(only("api.example.com"), time.Now, newKey(t, secret))
		for _, at := range []time.Duration{0, time.Minute, 7*time.Minute - time.Second} {
			time.Sleep(time.Until(began.Add(at)))
			if _, err := v.Verify(text, Call); err != nil {
				t.Errorf("after %v: %v", at, err)
			}
		}
		time.Sleep(time.Second)
		if _, err := v.Verify(text, Call); !errors.Is(err, ErrTime) {
			t.Errorf("a minute behind its end: got %v", err)
		}
	})
}

// While a secret is replaced a service accepts both keys.
func TestTwoSecrets(t *testing.T) {
	t.Parallel()
	v := NewVerifier(only("api.example.com"), func() time.Time { return noon }, newKey(t, secret), newKey(t, secret+"2"))
	for secret, want := range map[string]error{secret: nil, secret + "2": nil, secret + "3": ErrKey} {
		if _, err := v.Verify(newSigner(t, secret).Call([32]byte{}, "api.example.com", ada, noon), Call); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", secret, err, want)
		}
	}
}

// A service that is sent more assertions than it keeps forgets some, and
// keeps no forged one.
func TestVerifiedAreForgotten(t *testing.T) {
	t.Parallel()
	s, v := newSigner(t, secret), newVerifier(t, noon)
	v.verified = newCache[string, Claims](4 << 10)
	for i := range 20 {
		text := s.Call([32]byte{}, "api.example.com", ada, noon.Add(time.Duration(i-10)*time.Second))
		_, _ = v.Verify(text[:len(text)-4]+"AAAA", Call)
		if _, err := v.Verify(text, Call); err != nil || len(v.verified.values) > 4 {
			t.Fatalf("%d are kept, %v", len(v.verified.values), err)
		}
	}
}
