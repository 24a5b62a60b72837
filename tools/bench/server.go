package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// timeout limits each wait for a program.
const timeout = 60 * time.Second

// server is a running program that answers HTTP requests.
type server struct {
	name    string
	address string
	admin   string // of a Caddy
	workers []int  // processes of nginx

	variables []string // of its environment, beside those of the bench
	process   *exec.Cmd
	log       string        // the file for its output
	ended     chan struct{} // closed when the process ends
}

// answers describes the answer of a server that is ready.
type answers struct {
	token     string // of the request; "" for none
	status    int
	rateLimit string // a part of the field RateLimit
}

// start starts a program in a directory for its files. The caller waits for
// its answer.
func (b *bench) start(ctx context.Context, s *server, dir string, command ...string) error {
	s.log, s.ended = filepath.Join(dir, "log"), make(chan struct{})
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor
	s.process = exec.CommandContext(ctx, command[0], command[1:]...)
	s.process.Cancel = func() error { return s.process.Process.Signal(syscall.SIGTERM) }
	s.process.WaitDelay = timeout
	s.process.Dir, s.process.Stdout, s.process.Stderr = dir, log, log
	s.process.Env = slices.Concat(os.Environ(), []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, s.variables)
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	go func() {
		defer close(s.ended)
		_ = s.process.Wait() // await and the load report an early end
	}()
	b.stops = append(b.stops, s.stop)
	return nil
}

func (s *server) pid() int { return s.process.Process.Pid }

// await repeats a request until the answer is the expected one.
func (s *server) await(ctx context.Context, ready answers) error {
	const pause = 2 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		response, err := s.call(ctx, ready.token)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == ready.status && strings.Contains(response.Header.Get("RateLimit"), ready.rateLimit) {
				return nil
			}
			err = fmt.Errorf("got status %s and RateLimit %q, want %d and %q", response.Status, response.Header.Get("RateLimit"), ready.status, ready.rateLimit)
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
	err := s.process.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-s.ended:
		return err
	case <-time.After(timeout):
		err = errors.Join(err, fmt.Errorf("%s did not end after SIGTERM", s.name), s.process.Process.Kill())
		<-s.ended
		return err
	}
}

// given are the ports that freeAddresses has returned.
var given sync.Map

// freeAddresses returns addresses that no program uses now. Their ports lie below
// those that Linux gives for port 0, and those that the other tests choose: until
// the server listens that they are for, no program gets them.
func freeAddresses(ctx context.Context, n int) (list []string, err error) {
	const lowest, highest, tries = 4000, 10000, 1000
	for range tries {
		if len(list) == n {
			return list, nil
		}
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(highest-lowest))
		var listener net.Listener
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
			continue
		}
		if err = listener.Close(); err != nil {
			return nil, err
		}
		if _, taken := given.LoadOrStore(address, true); !taken {
			list = append(list, address)
		}
	}
	return nil, fmt.Errorf("found %d free addresses, want %d: %v", len(list), n, err)
}
