package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
)

// machine describes what the figures depend on besides the code.
type machine struct {
	model, caddy string
	redis, nginx string // "" if no measurement uses them
	load         float64
	hash, write  float64 // H and W
	times        procfs.CPUStat
}

// describe describes the machine before the first measurement, so that the
// load is the load of other programs.
func describe(ctx context.Context, b *bench) (m machine, err error) {
	version, err := exec.CommandContext(ctx, b.caddy, "version").Output()
	if err != nil {
		return m, fmt.Errorf("asking Caddy for its version: %w", err)
	}
	m.caddy, _, _ = strings.Cut(strings.TrimSpace(string(version)), " ")
	if b.wants("redis") || b.wants("peers") {
		version, err := exec.CommandContext(ctx, redisServer, "--version").Output()
		if err != nil {
			return m, fmt.Errorf("asking redis-server for its version: %w", err)
		}
		m.redis = redisVersion(string(version))
	}
	if b.wants("peers") {
		version, err := exec.CommandContext(ctx, nginxProgram, "-v").CombinedOutput()
		if err != nil {
			return m, fmt.Errorf("asking nginx for its version: %w", err)
		}
		_, m.nginx, _ = strings.Cut(strings.TrimSpace(string(version)), "/")
	}
	m.hash = hashTime()
	if m.write, err = b.writeTime(); err != nil {
		return m, err
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m, err
	}
	load, err := fs.LoadAvg()
	if err != nil {
		return m, err
	}
	stat, err := fs.Stat()
	if err != nil {
		return m, err
	}
	m.load, m.times = load.Load1, stat.CPUTotal
	m.model = runtime.GOARCH // some architectures have no model name
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 && cpus[0].ModelName != "" {
		m.model = cpus[0].ModelName
	}
	return m, nil
}

// redisVersion reads a text such as: Redis server v=7.0.15 sha=00000000:0
func redisVersion(text string) string {
	for _, word := range strings.Fields(text) {
		if version, found := strings.CutPrefix(word, "v="); found {
			return version
		}
	}
	return strings.TrimSpace(text)
}

// stolen is the part of the processor time since before that the host gave
// to other machines.
func stolen(before, after procfs.CPUStat) float64 {
	busy := func(s procfs.CPUStat) float64 { return s.User + s.Nice + s.System + s.IRQ + s.SoftIRQ + s.Steal }
	return (after.Steal - before.Steal) / max(1, busy(after)-busy(before))
}

func printNotes(output io.Writer, before machine, b *bench) error {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return err
	}
	after, err := fs.Stat()
	if err != nil {
		return err
	}
	programs := "Caddy " + before.caddy
	if before.redis != "" {
		programs += ", redis-server " + before.redis
	}
	if before.nginx != "" {
		programs += ", nginx " + before.nginx
	}
	_, err = fmt.Fprintf(output, `
%d cores (%s), %s, %s, load average %.2f at the start.
At the start, H (one SHA-256 of a token) was %s and W (one write of 64 bytes) %s.
The host gave %.1f %% of the busy processor time to other machines.
%d rounds of %d s, and %d repeated because two equal sides differed by more than %.0f %%. All programs of a measurement share these cores.
A figure is the median of the rounds.
The figures are valid for this machine and this run only.
`, runtime.NumCPU(), before.model, runtime.Version(), programs, before.load, asNanos(before.hash), asNanos(before.write),
		100*stolen(before.times, after.CPUTotal), b.rounds, b.seconds, b.repeated, 100*maxNoise)
	if err == nil && b.quick {
		_, err = fmt.Fprintln(output, "This was a smoke test. It is too short to judge the gate by it.")
	}
	return err
}
