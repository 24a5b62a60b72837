package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine is what the figures depend on besides the code.
type machine struct {
	cpu, load, caddy string
}

// describe is called before anything is measured: the load is that of
// the others.
func describe(ctx context.Context, caddy string) (machine, error) {
	version, err := exec.CommandContext(ctx, caddy, "version").Output()
	if err != nil {
		return machine{}, fmt.Errorf("asking Caddy for its version: %w", err)
	}
	cpus, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return machine{}, err
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return machine{}, err
	}
	return machine{cpuModel(string(cpus)), firstWord(string(load)), firstWord(string(version))}, nil
}

// cpuModel finds the model's name in /proc/cpuinfo; some architectures
// have none.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return word
}

func printNotes(output io.Writer, m machine, s *settings) error {
	_, err := fmt.Fprintf(output, `
%d cores (%s), %s, Caddy %s, load average %s at the start.
%d rounds of %d s. Load generator, upstream and Caddy share these cores.
Ratios and differences are the median over the rounds (least … greatest).
The figures hold for this machine and this run only.
`, runtime.NumCPU(), m.cpu, runtime.Version(), m.caddy, m.load, s.rounds, s.seconds)
	if err == nil && s.quick {
		_, err = fmt.Fprintln(output, "This was a smoke test: too short to judge anything by it.")
	}
	return err
}
