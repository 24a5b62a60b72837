package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/template"
)

//go:embed nginx/nginx.conf nginx/gate.lua
var nginxFiles embed.FS

// nginx is an nginx that does the work of a gate with Lua and a Redis of its
// own.
type nginx struct {
	*server
	redis   *redis
	workers []int    // its processes
	ample   []string // tokens, as those of gate
}

// startNginx starts a redis-server with accounts, and an nginx in front of
// an upstream. All files of nginx are in a directory of its own.
func (b *bench) startNginx(ctx context.Context, upstream string) (*nginx, error) {
	r, err := b.startRedis()
	if err != nil {
		return nil, err
	}
	addresses, err := b.freeAddresses(1)
	if err != nil {
		return nil, err
	}
	n := &nginx{server: &server{name: "nginx", address: addresses[0]}, redis: r}
	for i := range keys {
		token, err := n.createAccount(fmt.Sprintf("%s_%d", planAmple, i), planAmple, ampleLimit)
		if err != nil {
			return nil, fmt.Errorf("creating accounts: %w", err)
		}
		n.ample = append(n.ample, token)
	}
	dir, err := os.MkdirTemp(b.dir, "nginx-")
	if err != nil {
		return nil, err
	}
	files, err := template.ParseFS(nginxFiles, "nginx/*")
	if err != nil {
		return nil, err
	}
	for _, file := range files.Templates() {
		var text strings.Builder
		if err := file.Execute(&text, map[string]string{"Address": n.address, "Upstream": upstream, "Socket": r.socket}); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, file.Name()), []byte(text.String()), 0o600); err != nil {
			return nil, err
		}
	}
	ready := answers{token: n.ample[0], status: 200, rateLimit: `"convert";r=`}
	if err := b.start(ctx, n.server, dir, ready, "nginx", "-p", dir, "-c", "nginx.conf", "-e", "stderr"); err != nil {
		return nil, fmt.Errorf("%w (on Debian, it needs the packages libnginx-mod-http-lua and lua-nginx-redis)", err)
	}
	return n, n.await(ctx, n.hasWorkers)
}

// createAccount creates an account with a key, in the form that gate.lua
// describes, and returns the token.
func (n *nginx) createAccount(account, plan string, limit int64) (string, error) {
	t, id, err := newKey()
	if err != nil {
		return "", err
	}
	hash := t.Hash()
	if _, err := n.redis.Do("HSET", "account:"+account, "plan", plan, "convert", strconv.FormatInt(limit, 10)); err != nil {
		return "", err
	}
	_, err = n.redis.Do("HSET", "token:"+string(hash[:]), "account", account, "key", id, "abilities", "convert")
	return t.Reveal(), err
}

// hasWorkers looks for a worker for each processor: the processes that the first
// thread of nginx has forked.
func (n *nginx) hasWorkers(context.Context) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", n.pid()))
	if err != nil {
		return err
	}
	n.workers = nil
	for field := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		n.workers = append(n.workers, child)
	}
	if len(n.workers) < runtime.NumCPU() {
		return fmt.Errorf("nginx has %d workers", len(n.workers))
	}
	return nil
}
