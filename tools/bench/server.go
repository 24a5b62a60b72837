package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/caddy-tollgate/tollgate/tools/freeport"
)

// timeout limits each wait for a program.
const timeout = 60 * time.Second

// server is a running program that answers HTTP requests.
type server struct {
	name    string
	address string
	admin   string // of a Caddy

	process *exec.Cmd
	cancel  context.CancelFunc // sends SIGTERM
	log     string             // the file for its output
	ended   chan struct{}      // closed when the process ends
}

// answers describes the answer of a server that is ready.
type answers struct {
	token     string // of the request; "" for none
	status    int
	rateLimit string // a part of the field RateLimit
}

// start starts a program in a directory for its files, and waits for its
// answer.
func (b *bench) start(ctx context.Context, s *server, dir string, ready answers, command ...string) error {
	s.log, s.ended = filepath.Join(dir, "log"), make(chan struct{})
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor
	running, cancel := context.WithCancel(ctx)
	s.cancel, s.process = cancel, exec.CommandContext(running, command[0], command[1:]...)
	s.process.Cancel = func() error { return s.process.Process.Signal(syscall.SIGTERM) }
	s.process.WaitDelay = timeout
	s.process.Dir, s.process.Stdout, s.process.Stderr = dir, log, log
	s.process.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := s.process.Start(); err != nil {
		cancel()
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	go func() {
		defer close(s.ended)
		_ = s.process.Wait() // await and the load report an early end
	}()
	b.stops = append(b.stops, s.stop)
	return s.await(ctx, func(ctx context.Context) error { return s.answers(ctx, ready) })
}

func (s *server) pid() int { return s.process.Process.Pid }

// await waits until the server is ready.
func (s *server) await(ctx context.Context, ready func(context.Context) error) error {
	const pause = 2 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s ended: %s", s.name, s.messages())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %s", s.name, err, s.messages())
		case <-time.After(pause):
		}
	}
}

// answers compares one answer.
func (s *server) answers(ctx context.Context, want answers) error {
	response, err := s.call(ctx, want.token)
	if err != nil {
		return err
	}
	response.Body.Close()
	if got := response.Header.Get("RateLimit"); response.StatusCode != want.status || !strings.Contains(got, want.rateLimit) {
		return fmt.Errorf("%s answers %s and RateLimit %q, want %d and %q", s.name, response.Status, got, want.status, want.rateLimit)
	}
	return nil
}

// call makes one call over a connection of its own.
func (s *server) call(ctx context.Context, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+callPath, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return http.DefaultTransport.RoundTrip(request)
}

// messages returns the end of the log.
func (s *server) messages() string {
	const maxLength = 2000
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-maxLength):])
}

// stop ends the process, and kills it after a timeout. It can be repeated.
func (s *server) stop() error {
	s.cancel()
	<-s.ended
	return nil
}

// freeAddresses returns addresses that no other program gets until the
// measurement ends.
func (b *bench) freeAddresses(n int) ([]string, error) {
	list := make([]string, n)
	for i := range list {
		port, err := freeport.New()
		if err != nil {
			return nil, err
		}
		b.stops = append(b.stops, port.Release)
		list[i] = port.Address()
	}
	return list, nil
}
