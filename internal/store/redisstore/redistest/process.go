package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a program that was started and is waited for.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
	err     error // how it ended, once ended is closed
}

// run starts a command. Its attributes let it end together with this
// process.
func run(command *exec.Cmd) (*process, error) {
	p := &process{command: command, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux ends the command when the thread that started it ends, not
		// when the process does. So the thread stays here.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = command.Wait()
		close(p.ended)
	}()
	return p, <-started
}

// running returns an error if the process ended by itself.
func (p *process) running() error {
	select {
	case <-p.ended:
		return fmt.Errorf("redis-server ended by itself: %w", p.failure())
	default:
		return nil
	}
}

func (p *process) failure() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// kill ends the process at once, also if it is paused.
func (p *process) kill() error {
	if err := p.running(); err != nil {
		return err
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing redis-server: %w", err)
	}
	<-p.ended
	// It may have ended before the signal, without being waited for yet.
	if p.command.ProcessState.Exited() {
		return p.running()
	}
	return nil
}

// stop lets the process end in order.
func (p *process) stop() error {
	if err := p.running(); err != nil {
		return err
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping redis-server: %w", err)
	}
	if err := p.resume(); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		return fmt.Errorf("stopping redis-server: it runs %v after SIGTERM", patience)
	}
	if p.err != nil {
		return fmt.Errorf("stopping redis-server: %w", p.err)
	}
	return nil
}
