package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-rounds", "7", "start", "proxy"}, {"-rounds=7", "proxy", "start"}} {
		b, err := parseFlags(args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		wanted := slices.DeleteFunc(names(), func(name string) bool { return !b.wants(name) })
		if !slices.Equal(wanted, []string{"proxy", "start"}) || b.rounds != 7 || b.quick {
			t.Errorf("%v: got %v in %+v", args, wanted, b)
		}
	}
	for name, args := range map[string][]string{
		"unknown measurement": {"proxy", "prxy"},
		"no rounds":           {"-rounds", "0"},
		"no seconds":          {"-seconds", "0"},
		"flag after a name":   {"proxy", "-quick"},
	} {
		b, err := parseFlags(args, io.Discard)
		if err == nil {
			err = b.check()
		}
		if err == nil || strings.Contains(err.Error(), "missing") {
			t.Errorf("%s: got %v, want an error about the arguments", name, err)
		}
	}
}
