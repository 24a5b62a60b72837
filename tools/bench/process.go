package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc. The kernel counts in
// ticks of its own and converts; the unit that programs see is fixed at
// 100 to the second on every architecture that Go runs on (proc(5)).
const tick = time.Second / 100

// processorTime is the time that a process has spent on processors, in
// its own code and in the kernel, on all threads, past ones included.
func processorTime(pid int) (time.Duration, error) {
	data, err := readProc(pid, "stat")
	if err != nil {
		return 0, err
	}
	return parseStat(data)
}

// memory is what a process occupies, in bytes.
type memory struct {
	resident int64 // all of it, with the files that it has mapped

	// proportional is the same with what is shared divided among those
	// that share it.
	proportional int64

	// anonymous is what belongs to no file. The kernel cannot take it
	// back when it needs memory, as it can the pages of files.
	anonymous int64
}

func memoryOf(pid int) (m memory, err error) {
	status, err := readProc(pid, "status")
	if err != nil {
		return m, err
	}
	rollup, err := readProc(pid, "smaps_rollup")
	if err != nil {
		return m, err
	}
	if m.resident, err = parseSize(status, "VmRSS"); err != nil {
		return m, err
	}
	if m.anonymous, err = parseSize(status, "RssAnon"); err != nil {
		return m, err
	}
	m.proportional, err = parseSize(rollup, "Pss")
	return m, err
}

func readProc(pid int, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	return string(data), err
}

// parseStat adds up utime and stime, the fields 14 and 15 of
// /proc/<pid>/stat. The second field is the program's name in
// parentheses, and may itself contain spaces and parentheses.
func parseStat(stat string) (time.Duration, error) {
	const state, utime, stime = 3, 14, 15
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errors.New("stat without a program's name")
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) <= stime-state {
		return 0, errors.New("stat ends too early")
	}
	user, err := strconv.ParseInt(fields[utime-state], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("utime: %w", err)
	}
	system, err := strconv.ParseInt(fields[stime-state], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stime: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}

// parseSize finds a line such as "VmRSS:   1234 kB" and returns bytes.
func parseSize(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if !ok || key != name {
			continue
		}
		size, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if !ok {
			return 0, fmt.Errorf("%s is not in kB", name)
		}
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("no %s", name)
}
