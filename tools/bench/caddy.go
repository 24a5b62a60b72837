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

// patience bounds every wait for a program. It is used up only when
// something is wrong.
const patience = 60 * time.Second

// caddy is a running Caddy with one site, which any host name reaches.
type caddy struct {
	address string // of the site
	admin   string // of the admin endpoint

	process *exec.Cmd
	log     string        // the file that it writes to
	ended   chan struct{} // closed at its end
}

// caddyConfig is what a Caddy is started with.
type caddyConfig struct {
	name    string
	options string // further global options
	site    string // the directives of the site
	more    string // further sites
}

// text is the Caddyfile. There is no access log.
func (c caddyConfig) text(address, admin string) string {
	_, port, _ := strings.Cut(address, ":")
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
%s`, admin, c.options, port, c.site, c.more)
}

// startCaddy starts the built Caddy in a directory of its own and waits
// until it answers a request with a token at all.
func startCaddy(ctx context.Context, s *settings, config caddyConfig) (*caddy, error) {
	c, err := launchCaddy(ctx, s, config)
	if err != nil {
		return nil, err
	}
	err = c.await(ctx, "", func(*http.Response) bool { return true })
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// launchCaddy starts the built Caddy and does not wait for it.
func launchCaddy(ctx context.Context, s *settings, config caddyConfig) (*caddy, error) {
	ports, err := freeAddresses(ctx, 2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, config.name+"-")
	if err != nil {
		return nil, err
	}
	c := &caddy{address: ports[0], admin: ports[1], log: filepath.Join(dir, "log"), ended: make(chan struct{})}
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(config.text(c.address, c.admin)), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	c.process = exec.CommandContext(ctx, s.caddy, "run", "--config", file, "--adapter", "caddyfile")
	c.process.Cancel = func() error { return c.process.Process.Signal(syscall.SIGTERM) }
	c.process.WaitDelay = patience
	c.process.Dir, c.process.Stdout, c.process.Stderr = dir, log, log
	c.process.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("starting Caddy: %w", err)
	}
	go func() {
		defer close(c.ended)
		_ = c.process.Wait() // whoever needs it alive notices its end
	}()
	return c, nil
}

func (c *caddy) pid() int { return c.process.Process.Pid }

// await asks for the target with a token ("" for none) until the answer
// is good.
func (c *caddy) await(ctx context.Context, token string, good func(*http.Response) bool) error {
	return c.until(ctx, func(ctx context.Context) error {
		response, err := c.call(ctx, token)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if !good(response) {
			return fmt.Errorf("it answers %s", response.Status)
		}
		return nil
	})
}

// until tries again and again until it succeeds or there is no hope.
func (c *caddy) until(ctx context.Context, try func(context.Context) error) error {
	const pause = 2 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
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

// call asks for the target once, over a connection of its own.
func (c *caddy) call(ctx context.Context, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+target, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return http.DefaultTransport.RoundTrip(request)
}

// messages is the end of what the process wrote.
func (c *caddy) messages() string {
	const most = 2000
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// stop ends the process as an operator does, and kills one that does not
// come to its end.
func (c *caddy) stop() error {
	err := c.process.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-c.ended:
		return err
	case <-time.After(patience):
		err = errors.Join(err, errors.New("caddy did not end"), c.process.Process.Kill())
		<-c.ended
		return err
	}
}

// freeAddresses returns addresses that nobody listens on at the moment.
func freeAddresses(ctx context.Context, n int) ([]string, error) {
	list := make([]string, n)
	for i := range list {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // not before all are found, or they would be the same
		list[i] = listener.Addr().String()
	}
	return list, nil
}
