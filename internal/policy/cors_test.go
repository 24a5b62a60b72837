package policy_test

import (
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

func newCORS(origins ...string) (*policy.CORS, error) {
	c := config()
	c.CORS = &policy.CORSConfig{Origins: origins}
	p, err := policy.New(c)
	return p.CORS, err
}

// TestOrigins: the form of an origin is the one that browsers send. Another
// form would never be equal to theirs.
func TestOrigins(t *testing.T) {
	t.Parallel()
	for origin, valid := range map[string]bool{
		"https://app.example.com": true, "http://localhost:5173": true, "http://127.0.0.1:8080": true, "http://[::1]:3000": true,
		"https://xn--bcher-kva.example": true, "capacitor://localhost": true, "chrome-extension://abcdefghijklmnop": true, "http://a.example:443": true,
		"": false, "null": false, "app.example.com": false, "//app.example.com": false, "https://": false, "https:app.example.com": false,
		"https://app.example.com/": false, "https://app.example.com/x": false, "https://app.example.com?x": false, "https://app.example.com#x": false,
		"https://ada@app.example.com": false, "https://app.example.com:443": false, "http://app.example.com:80": false,
		"https://App.example.com": false, "HTTPS://app.example.com": false, "https://bücher.example": false,
		"https://*.example.com": false, "https://app.example.com ": false, "https://a.example,https://b.example": false,
		"https://app.example.com:": false, "https://app.example.com:x": false,
	} {
		c, err := newCORS(origin)
		if (err == nil) != valid {
			t.Errorf("%q: got %v, want it accepted: %t", origin, err, valid)
		}
		if valid && c.Allow(origin) != origin {
			t.Errorf("%q is not allowed", origin)
		}
	}
}

// TestAllow compares origins byte by byte.
func TestAllow(t *testing.T) {
	t.Parallel()
	listed, err := newCORS("https://app.example.com", "http://localhost:5173")
	if err != nil {
		t.Fatal(err)
	}
	for _, origin := range []string{
		"", "null", "*", "https://app.example.com.evil.example", "https://evil.example/https://app.example.com", "http://app.example.com",
		"https://app.example.com:8443", "https://APP.example.com", "https://app.example.com/", "http://localhost",
	} {
		if got := listed.Allow(origin); got != "" {
			t.Errorf("%q: got %q", origin, got)
		}
	}
	if got := listed.Allow("http://localhost:5173"); got != "http://localhost:5173" {
		t.Errorf("got %q for an origin that is listed", got)
	}
	all, err := newCORS("*")
	if err != nil || all.Allow("null") != "*" || all.Allow("https://any.example") != "*" || all.Allow("") != "" {
		t.Errorf("*: got %q, %q and %q (%v)", all.Allow("null"), all.Allow("https://any.example"), all.Allow(""), err)
	}
	if _, err := newCORS("*", "https://app.example.com"); err == nil {
		t.Error("* with another origin is accepted")
	}
	if c, err := policy.New(config()); err != nil || c.CORS != nil {
		t.Errorf("without the option: got %v (%v)", c.CORS, err)
	}
}

// TestMaxAge is in whole seconds.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]string{0: "600", time.Second: "1", 90*time.Second + 1: "90", 24 * time.Hour: "86400"} {
		c := config()
		c.CORS = &policy.CORSConfig{Origins: []string{"*"}, MaxAge: policy.Duration(age)}
		if p, err := policy.New(c); err != nil || p.CORS.MaxAge != want {
			t.Errorf("%s: got %v, want %s", age, err, want)
		}
	}
}
