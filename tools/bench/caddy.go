package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// timeout limits each wait for a program.
const timeout = 60 * time.Second

// caddy is a running Caddy with one site for all host names.
type caddy struct {
	address string // of the site
	process *exec.Cmd
	log     string        // the file for its output
	ended   chan struct{} // closed when the process ends
}

// caddyConfig is the varying part of a Caddyfile.
type caddyConfig struct {
	options string // further global options
	site    string // the directives of the site
	more    string // further sites
}

// text returns the Caddyfile. It has no access log.
func (c caddyConfig) text(address, admin string) string {
	return fmt.Sprintf(`{
	admin %s
	auto_https off
	persist_config off
	grace_period 1s
	%s
}
http://:%s {
	bind 127.0.0.1
	%s
}
%s`, admin, c.options, port(address), c.site, c.more)
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// answers describes the answer of a Caddy that is ready.
type answers struct {
	token     string // of the request; "" for none
	status    int
	rateLimit string // a part of the field RateLimit
}

// startCaddy starts the built Caddy in a directory of its own and waits for
// the answer.
func (b *bench) startCaddy(ctx context.Context, config caddyConfig, ready answers) (*caddy, error) {
	addresses, err := freeAddresses(ctx, 2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "caddy-")
	if err != nil {
		return nil, err
	}
	c := &caddy{address: addresses[0], log: filepath.Join(dir, "log"), ended: make(chan struct{})}
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(config.text(c.address, addresses[1])), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own descriptor
	c.process = exec.CommandContext(ctx, b.caddy, "run", "--config", file, "--adapter", "caddyfile")
	c.process.Cancel = func() error { return c.process.Process.Signal(syscall.SIGTERM) }
	c.process.WaitDelay = timeout
	c.process.Dir, c.process.Stdout, c.process.Stderr = dir, log, log
	c.process.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("starting Caddy: %w", err)
	}
	go func() {
		defer close(c.ended)
		_ = c.process.Wait() // await and the load report an early end
	}()
	b.stops = append(b.stops, c.stop)
	return c, c.await(ctx, ready)
}

func (c *caddy) pid() int { return c.process.Process.Pid }

// await repeats a request until the answer is the expected one.
func (c *caddy) await(ctx context.Context, ready answers) error {
	const pause = 2 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		response, err := c.call(ctx, ready.token)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == ready.status && strings.Contains(response.Header.Get("RateLimit"), ready.rateLimit) {
				return nil
			}
			err = fmt.Errorf("got status %s and RateLimit %q, want %d and %q", response.Status, response.Header.Get("RateLimit"), ready.status, ready.rateLimit)
		}
		select {
		case <-c.ended:
			return fmt.Errorf("caddy ended: %s", c.messages())
		case <-ctx.Done():
			return fmt.Errorf("waiting for Caddy: %w: %s", err, c.messages())
		case <-time.After(pause):
		}
	}
}

// call makes one call over a connection of its own.
func (c *caddy) call(ctx context.Context, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+callPath, nil)
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
func (c *caddy) messages() string {
	const maxLength = 2000
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-maxLength):])
}

// stop ends the process, and kills it after a timeout. It can be repeated.
func (c *caddy) stop() error {
	err := c.process.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-c.ended:
		return err
	case <-time.After(timeout):
		err = errors.Join(err, errors.New("caddy did not end after SIGTERM"), c.process.Process.Kill())
		<-c.ended
		return err
	}
}

// freeAddresses returns addresses that no program uses now.
func freeAddresses(ctx context.Context, n int) ([]string, error) {
	list := make([]string, n)
	for i := range list {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // after the loop, so that the addresses differ
		list[i] = listener.Addr().String()
	}
	return list, nil
}
