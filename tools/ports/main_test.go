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
	for _, address := range []string{used.Addr().String(), "http://localhost:" + port, "https://api.example.com:" + port} {
		var said strings.Builder
		if status := run([]string{free.Addr().String(), address}, &said); status != 1 || !strings.HasPrefix(said.String(), address+" is in use: ") || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("%s: got %d, %q", address, status, said.String())
		}
	}
	var said strings.Builder
	if status := run([]string{free.Addr().String(), "", "unix//run/admin.sock"}, &said); status != 0 || said.Len() > 0 {
		t.Errorf("got %d, %q", status, said.String())
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://localhost:8080": ":8080", "https://api.example.com": ":443", "http://api.example.com": ":80",
		"127.0.0.1:8081": "127.0.0.1:8081", "localhost:2019": "localhost:2019", ":9000": ":9000", "unix//run/x": "", "": "",
	} {
		if got := endpoint(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}
