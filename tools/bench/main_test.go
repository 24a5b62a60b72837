package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	s, err := parseFlags([]string{"-only", "proxy,start", "-rounds", "7"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, name := range names() {
		if s.wants(name) {
			wanted = append(wanted, name)
		}
	}
	if !slices.Equal(wanted, []string{"proxy", "start"}) || s.rounds != 7 || s.quick {
		t.Errorf("got %v in %+v", wanted, s)
	}
	for name, args := range map[string][]string{
		"no such measurement":    {"-only", "proxy,prxy"},
		"no rounds":              {"-rounds", "0"},
		"no time":                {"-seconds", "0"},
		"profile without a load": {"-only", "start", "-profile", "x"},
		"stray argument":         {"proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := parseFlags(args, io.Discard)
			if err == nil {
				err = s.check()
			}
			if err == nil || strings.Contains(err.Error(), "no built Caddy") {
				t.Errorf("%v: got %v", args, err)
			}
		})
	}
}

func TestCPUModel(t *testing.T) {
	t.Parallel()
	const info = "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some Processor: 2 GHz\ncache size\t: 1 KB\n"
	if got, want := cpuModel(info), "Some Processor: 2 GHz"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := cpuModel("processor : 0\n"); got == "" {
		t.Error("an unnamed processor is described by nothing")
	}
}
