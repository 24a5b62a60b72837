package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// caddyConfig is the varying part of a Caddyfile, and of the environment.
type caddyConfig struct {
	options   string   // further global options
	site      string   // the directives of the site
	more      string   // further sites
	variables []string // NAME=value
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

// startCaddy starts the built Caddy in a directory of its own and waits for
// the answer.
func (b *bench) startCaddy(ctx context.Context, config caddyConfig, ready answers) (*server, error) {
	addresses, err := freeAddresses(ctx, 2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "caddy-")
	if err != nil {
		return nil, err
	}
	s := &server{name: "Caddy", address: addresses[0], admin: addresses[1], variables: config.variables}
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(config.text(s.address, s.admin)), 0o600); err != nil {
		return nil, err
	}
	if err := b.start(ctx, s, dir, b.caddy, "run", "--config", file, "--adapter", "caddyfile"); err != nil {
		return nil, err
	}
	return s, s.await(ctx, ready)
}
