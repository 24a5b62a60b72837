package stack

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// process is a started program. ended is closed when it ends.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

func (s *Stack) start(program string, args ...string) *process {
	s.t.Helper()
	p := &process{Cmd: exec.Command(s.binary(program), args...), ended: make(chan struct{})}
	p.Env, p.Dir = s.env, filepath.Dir(s.Caddyfile)
	p.Stdout, p.Stderr = s.log, s.log
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // the log has the reason
	}()
	return p
}

// stop stops a program as an operator does, and kills it if it does not end.
func (s *Stack) stop(p *process) {
	s.t.Helper()
	if p == nil {
		return
	}
	select {
	case <-p.ended:
		return
	default:
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		s.t.Errorf("%s did not end", p.Path)
		_ = p.Process.Kill()
		<-p.ended
	}
}

// await waits until a URL answers with this status.
func (s *Stack) await(name, url string, status int, p *process) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		response, err := client.Get(url)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == status {
				return
			}
		}
		select {
		case <-p.ended:
			s.t.Fatalf("%s ended: %s", name, s.log)
		case <-deadline:
			s.t.Fatalf("%s does not answer with %d: %v", name, status, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Output collects the output of programs.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Log returns the output of the programs so far.
func (s *Stack) Log() string { return s.log.String() }

// Run runs commands of a shell beside the Caddyfile, with the built programs.
func (s *Stack) Run(commands string) {
	s.t.Helper()
	if out, err := s.Shell(commands); err != nil {
		s.t.Errorf("running\n%s%v\n%s", commands, err, out)
	}
}

// Shell is like Run, and returns all that the commands print. The error is
// that of the first command that fails.
func (s *Stack) Shell(commands string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-euc", commands)
	cmd.Dir = filepath.Dir(s.Caddyfile)
	cmd.Env = append(slices.Clone(s.env), "PATH="+filepath.Join(Root(), "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
