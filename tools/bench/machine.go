package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
)

// describe returns what the figures depend on besides the code: the versions of
// programs, H and W.
func (b *bench) describe(ctx context.Context) (string, error) {
	programs := []string{runtime.Version()}
	commands := [][]string{{b.caddy, "version"}}
	if b.wants("redis") || b.wants("peers") {
		commands = append(commands, []string{"redis-server", "--version"})
	}
	if b.wants("peers") {
		commands = append(commands, []string{"nginx", "-v"})
	}
	for _, command := range commands {
		version, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("asking %s for its version (or choose other measurements): %w", command[0], err)
		}
		programs = append(programs, strings.TrimSpace(string(version)))
	}
	write, err := b.writeTime()
	return fmt.Sprintf("%d cores, %s.\nAt the start, H (one SHA-256 of a token) was %s and W (one write of 64 bytes) %s.",
		runtime.NumCPU(), strings.Join(programs, ", "), asNanos(hashTime()), asNanos(write)), err
}

func (b *bench) printNotes(output io.Writer, description string) error {
	_, err := fmt.Fprintf(output, `
%s
%d rounds of %d s, and %d repeated because two equal sides differed by more than %.0f %%. All programs of a measurement share these cores.
A figure is the median of the rounds.
The figures are valid for this machine and this run only.
`, description, b.rounds, b.seconds, b.repeated, 100*maxNoise)
	if err == nil && b.quick {
		_, err = fmt.Fprintln(output, "This was a smoke test. It is too short to judge the gate by it.")
	}
	return err
}
