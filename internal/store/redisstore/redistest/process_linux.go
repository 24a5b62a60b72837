package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// attributes let a command end when this process is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// pause stops the process and waits until it has stopped: the signal alone
// would let it answer another command.
func (p *process) pause() error {
	if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pausing redis-server: %w", err)
	}
	return await("redis-server to pause", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
		if err != nil {
			return err
		}
		// "pid (name) state": see proc_pid_stat(5).
		if _, state, ok := bytes.Cut(stat, []byte(") ")); !ok || state[0] != 'T' {
			return errors.New("it runs")
		}
		return nil
	})
}

func (p *process) resume() error {
	if err := p.command.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("resuming redis-server: %w", err)
	}
	return nil
}
