package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/template"
	"time"
)

const nginxProgram = "nginx"

//go:embed nginx/nginx.conf nginx/gate.lua
var nginxFiles embed.FS

// nginx is an nginx that does the work of a gate with Lua and a Redis of its
// own.
type nginx struct {
	*server
	redis     *redis
	ample     []string // tokens, as those of gate
	exhausted []string
}

// startNginx starts a redis-server with accounts, and an nginx in front of
// an upstream. All files of nginx are in a directory of its own.
func (b *bench) startNginx(ctx context.Context, upstream string) (*nginx, error) {
	r, socket, err := b.startRedisAtSocket(ctx)
	if err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(ctx, 1)
	if err != nil {
		return nil, err
	}
	n := &nginx{server: &server{name: "nginx", address: addresses[0]}, redis: r}
	if err := n.createAccounts(); err != nil {
		return nil, fmt.Errorf("creating accounts: %w", err)
	}
	dir, err := os.MkdirTemp(b.dir, "nginx-")
	if err != nil {
		return nil, err
	}
	if err := writeNginx(dir, nginxSettings{n.address, upstream, socket}); err != nil {
		return nil, err
	}
	if err := b.start(ctx, n.server, dir, nginxProgram, "-p", dir, "-c", "nginx.conf", "-e", "stderr"); err != nil {
		return nil, err
	}
	if err := n.await(ctx, answers{token: n.ample[0], status: http.StatusOK}); err != nil {
		return nil, fmt.Errorf("%w (on Debian, it needs the packages libnginx-mod-http-lua and lua-nginx-redis)", err)
	}
	return n, n.awaitWorkers(ctx)
}

// nginxSettings are the varying parts of nginx.conf.
type nginxSettings struct{ Address, Upstream, Socket string }

func writeNginx(dir string, settings nginxSettings) error {
	config, err := template.ParseFS(nginxFiles, "nginx/nginx.conf")
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := config.Execute(&text, settings); err != nil {
		return err
	}
	gate, err := nginxFiles.ReadFile("nginx/gate.lua")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(text.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "gate.lua"), gate, 0o600))
}

// createAccounts creates accounts with a key each. gate.lua describes their
// form.
func (n *nginx) createAccounts() error {
	for i := range keys {
		for plan, p := range map[string]struct {
			limit  int
			tokens *[]string
		}{planAmple: {ampleLimit, &n.ample}, planExhausted: {0, &n.exhausted}} {
			token, err := n.createAccount(fmt.Sprintf("%s_%d", plan, i), plan, p.limit)
			if err != nil {
				return err
			}
			*p.tokens = append(*p.tokens, token)
		}
	}
	return nil
}

func (n *nginx) createAccount(account, plan string, limit int) (string, error) {
	t, id, err := newKey()
	if err != nil {
		return "", err
	}
	hash := t.Hash()
	if _, err := n.redis.Do("HSET", "account:"+account, "plan", plan, "convert", strconv.Itoa(limit)); err != nil {
		return "", err
	}
	_, err = n.redis.Do("HSET", "token:"+string(hash[:]), "account", account, "key", id, "abilities", "convert")
	return t.Reveal(), err
}

// counted returns the calls of an account that Redis has counted today.
func (n *nginx) counted(account string) (int, error) {
	day, err := today()
	if err != nil {
		return 0, err
	}
	reply, err := n.redis.Do("GET", fmt.Sprintf("count:%s:convert:%d", account, day))
	if err != nil || reply == nil {
		return 0, err
	}
	text, _ := reply.(string)
	return strconv.Atoi(text)
}

// awaitWorkers waits until there is a worker for each processor.
func (n *nginx) awaitWorkers(ctx context.Context) error {
	const pause = 2 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		var err error
		if n.workers, err = children(n.pid()); err != nil {
			return err
		}
		if len(n.workers) >= runtime.NumCPU() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nginx has %d workers: %s", len(n.workers), n.messages())
		case <-time.After(pause):
		}
	}
}

// check compares the answers and the count with what a gate does: a peer that
// does less would be faster.
func (n *nginx) check(ctx context.Context) error {
	unknown, err := unknownTokens()
	if err != nil {
		return err
	}
	before, err := n.counted(planAmple + "_0")
	if err != nil {
		return err
	}
	for _, test := range []struct {
		token string
		want  int
		field string
	}{
		{n.ample[0], http.StatusOK, `"convert";r=`}, {n.ample[0], http.StatusOK, `"convert";r=`},
		{n.exhausted[0], http.StatusTooManyRequests, `"convert";r=0;`}, {unknown[0], http.StatusUnauthorized, ""}, {"", http.StatusUnauthorized, ""},
	} {
		response, err := n.call(ctx, test.token)
		if err != nil {
			return err
		}
		response.Body.Close()
		if field := response.Header.Get("RateLimit"); response.StatusCode != test.want || !strings.HasPrefix(field, test.field) {
			return fmt.Errorf("nginx answers %s and RateLimit %q, want %d and %q", response.Status, field, test.want, test.field)
		}
	}
	after, err := n.counted(planAmple + "_0")
	if err == nil && after != before+2 {
		err = fmt.Errorf("nginx counted %d of 2 calls", after-before)
	}
	return err
}
