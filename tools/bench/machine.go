package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// machine is what the figures depend on besides the code.
type machine struct {
	cpu, load, caddy string
	before           cpuTime // at the start
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
	before, err := readCPUTime()
	if err != nil {
		return machine{}, err
	}
	return machine{cpuModel(string(cpus)), firstWord(string(load)), firstWord(string(version)), before}, nil
}

// cpuTime is how long the processors were wanted since the machine was
// started, in ticks, and for how much of that its host had given them to
// others.
type cpuTime struct{ wanted, stolen uint64 }

func readCPUTime() (cpuTime, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTime{}, err
	}
	return parseCPUTime(string(data))
}

// parseCPUTime reads the line "cpu" of /proc/stat (proc(5)): user, nice,
// system, idle, iowait, irq, softirq and steal.
func parseCPUTime(stat string) (p cpuTime, err error) {
	const idle, iowait, steal = 4, 5, 8
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) <= steal || fields[0] != "cpu" {
		return p, errors.New("/proc/stat does not begin with the processors")
	}
	for i, field := range fields[:steal+1] {
		if i == 0 || i == idle || i == iowait {
			continue
		}
		ticks, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return p, fmt.Errorf("/proc/stat: %w", err)
		}
		p.wanted += ticks
		p.stolen = ticks // the last is steal
	}
	return p, nil
}

// stolenSince is the part of the processors' time that the host has given to
// others since.
func (p cpuTime) stolenSince(before cpuTime) float64 {
	if p.wanted <= before.wanted {
		return 0
	}
	return float64(p.stolen-before.stolen) / float64(p.wanted-before.wanted)
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
	after, err := readCPUTime()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(output, `
%d cores (%s), %s, Caddy %s, load average %s at the start.
The host gave %.1f %% of the time that was asked of the cores to others.
%d rounds of %d s. Load generator, upstream and Caddy share these cores.
Ratios and differences are the median over the rounds (least … greatest).
The figures hold for this machine and this run only.
`, runtime.NumCPU(), m.cpu, runtime.Version(), m.caddy, m.load, 100*after.stolenSince(m.before), s.rounds, s.seconds)
	if err == nil && s.quick {
		_, err = fmt.Fprintln(output, "This was a smoke test: too short to judge anything by it.")
	}
	return err
}
