package main

import (
	"errors"
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
		var wanted []string
		for _, name := range names() {
			if b.wants(name) {
				wanted = append(wanted, name)
			}
		}
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

// A missing program is an error that names it, and only if a chosen
// measurement needs it.
func TestMissingProgram(t *testing.T) {
	t.Parallel()
	missing := errors.New("not found")
	without := func(program string) func(string) (string, error) {
		return func(name string) (string, error) {
			if name == program {
				return "", missing
			}
			return "/usr/bin/" + name, nil
		}
	}
	for name, test := range map[string]struct {
		only    []string
		program string
		want    string // "" for no error
	}{
		"peers without nginx":        {[]string{"peers"}, nginxProgram, "measurement peers"},
		"all without redis-server":   {nil, redisServer, "measurement redis"},
		"redis without redis-server": {[]string{"redis"}, redisServer, "measurement redis"},
		"redis without wrk":          {[]string{"redis"}, wrk, "measurement redis"},
		"proxy without redis-server": {[]string{"proxy", "refusals"}, redisServer, ""},
		"start without wrk":          {[]string{"start"}, wrk, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := (&bench{only: test.only}).checkPrograms(without(test.program))
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, missing) || !strings.Contains(err.Error(), "missing "+test.program) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error about %s and the %s", err, test.program, test.want)
			}
		})
	}
}
