package main

import (
	"net"
	"strings"
	"testing"
)

// A port that is in use is named, and others are not.
func TestRun(t *testing.T) {
	t.Parallel()
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(used.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	site := "http://" + free.Addr().String()
	for _, c := range []struct {
		arguments []string
		names     string
	}{
		{[]string{site, used.Addr().String()}, used.Addr().String()},
		{[]string{"http://localhost:" + port, free.Addr().String()}, "http://localhost:" + port},
		{[]string{site + ", https://api.example.com:" + port}, "https://api.example.com:" + port},
		{[]string{"one.example:" + port}, "one.example:" + port},
	} {
		var said strings.Builder
		if status := run(c.arguments, &said); status != 1 || !strings.HasPrefix(said.String(), c.names+" is in use: ") || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("%q: got %d, %q", c.arguments, status, said.String())
		}
	}
	var said strings.Builder
	if status := run([]string{site, free.Addr().String(), "", "unix//run/admin.sock"}, &said); status != 0 || said.Len() > 0 {
		t.Errorf("got %d, %q", status, said.String())
	}
}

func TestListener(t *testing.T) {
	t.Parallel()
	for site, want := range map[string]string{
		"http://localhost:8080": ":8080", "https://api.example.com": ":443", "http://api.example.com": ":80",
		"api.example.com": ":443", "one.example:8443": ":8443", ":9000": ":9000", "": "",
	} {
		if got := listener(site); got != want {
			t.Errorf("%q: got %q, want %q", site, got, want)
		}
	}
}
