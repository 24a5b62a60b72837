package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// memory is the memory of a process, in bytes.
type memory struct {
	resident     float64 // with the files that it has mapped
	proportional float64 // the same, but shared pages are divided among their users
}

// usageOf returns the processor time of a process, in its own code and in
// the kernel, and its memory.
func usageOf(pid int) (cpu time.Duration, m memory, err error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, m, err
	}
	stat, err := process.Stat()
	if err != nil {
		return 0, m, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return 0, m, err
	}
	rollup, err := process.ProcSMapsRollup()
	if err != nil {
		return 0, m, err
	}
	cpu = time.Duration(stat.CPUTime() * float64(time.Second))
	return cpu, memory{float64(status.VmRSS), float64(rollup.Pss)}, nil
}

func (m *memory) add(other memory) {
	m.resident += other.resident
	m.proportional += other.proportional
}

// children returns the processes that the first thread of a process has
// forked.
func children(pid int) ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return nil, err
	}
	var list []int
	for _, field := range strings.Fields(string(text)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		list = append(list, child)
	}
	return list, nil
}
