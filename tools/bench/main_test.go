package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	b, err := parseFlags([]string{"-only", "proxy,start", "-rounds", "7"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, name := range names() {
		if b.wants(name) {
			wanted = append(wanted, name)
		}
	}
	if !slices.Equal(wanted, []string{"proxy", "start"}) || b.rounds != 7 || b.quick {
		t.Errorf("got %v in %+v", wanted, b)
	}
	for name, args := range map[string][]string{
		"unknown measurement": {"-only", "proxy,prxy"},
		"no rounds":           {"-rounds", "0"},
		"no seconds":          {"-seconds", "0"},
		"unexpected argument": {"proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := parseFlags(args, io.Discard)
			if err == nil {
				err = b.check()
			}
			if err == nil || strings.Contains(err.Error(), "bin/caddy") {
				t.Errorf("%v: got %v, want an error about the arguments", args, err)
			}
		})
	}
}
