package main

import (
	"net"
	"strings"
	"testing"
)

// A port that is in use is named with its setting, and others are not.
func TestRun(t *testing.T) {
	t.Parallel()
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	address := used.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for argument, taken := range map[string]string{
		"TOLLGATE_CONTROL=" + address:                                                          address,
		"TOLLGATE_ADDRESS=http://localhost:" + port:                                            "http://localhost:" + port,
		"TOLLGATE_ADDRESS=http://localhost:1, one.example:" + port + ", https://two.example:2": "one.example:" + port,
		"TOLLGATE_ADDRESS=http://127.0.0.1:0":                                                  "", "TOLLGATE_UPSTREAM=": "", "CADDY_ADMIN=unix//run/admin.sock": "",
	} {
		name, _, _ := strings.Cut(argument, "=")
		want, status := "", 0
		if taken != "" {
			want, status = taken+" is in use by another program. Stop that program, or set "+name+" to an address with another port.\n", 1
		}
		var said strings.Builder
		if got := run([]string{argument}, &said); got != status || said.String() != want {
			t.Errorf("%q: got %d, %q, want %q", argument, got, said.String(), want)
		}
	}
}

func TestListener(t *testing.T) {
	t.Parallel()
	for site, want := range map[string]string{
		"http://localhost:8080": ":8080", "https://api.example.com": ":443", "http://api.example.com": ":80", "api.example.com": ":443", ":9000": ":9000", "": "",
	} {
		if got := listener(site); got != want {
			t.Errorf("%q: got %q, want %q", site, got, want)
		}
	}
}

// An invalid setting is named, and refused before a build.
func TestSettings(t *testing.T) {
	t.Setenv("TOLLGATE_CONTACT", "none")
	var said strings.Builder
	if status := run(nil, &said); status != 1 || !strings.HasPrefix(said.String(), `invalid TOLLGATE_CONTACT "none": want `) {
		t.Errorf("got %d, %q", status, &said)
	}
}
