package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/metrics"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

func init() { caddy.RegisterModule((*BadgerStore)(nil)) }

// BadgerStore keeps API keys, accounts, quotas and usage on this machine, without
// a database server. It is an embedded Badger database: one directory, used by
// one process.
type BadgerStore struct {
	// Directory is the directory of the database. Caddy creates it if it
	// is missing. No other process may use it. Required.
	Directory string `json:"directory,omitempty"`

	// Sync writes each call to the disk before the call is admitted, so
	// that counts survive a loss of power. Without it, counts are synced
	// every second, and survive the end of the process only. Default: off.
	// Restart Caddy to change it.
	Sync bool `json:"sync,omitempty"`

	directory string
}

// CaddyModule returns the Caddy module information.
func (*BadgerStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tollgate.stores.badger", New: func() caddy.Module { return new(BadgerStore) }}
}

// Provision resolves the directory.
func (b *BadgerStore) Provision(caddy.Context) error {
	directory, err := block.Resolve(b.Directory, "", nil)
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if directory == "" {
		return errors.New("directory: required")
	}
	if directory, err = filepath.Abs(directory); err != nil {
		return err
	}
	b.directory = resolved(directory)
	return nil
}

// resolved follows the links of a path whose last parts may not exist yet,
// so that all names of a directory are one store.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}

// Key implements pool.Opener.
func (b *BadgerStore) Key() string { return "badger:" + b.directory }

// Settings implements pool.Opener.
func (b *BadgerStore) Settings() any { return b.Sync }

// Open implements pool.Opener. A configuration that ends may still lock the
// directory for a moment, so Open retries. The store outlives the
// configuration, so its logger is the process's. Login attempts are limited
// in memory, with the store as the journal.
func (b *BadgerStore) Open() (pool.Backend, error) {
	const timeout, pause = 2 * time.Second, 50 * time.Millisecond
	o := badgerstore.Options{Sync: b.Sync, Logger: pool.ProcessLog("tollgate.store"), Committed: metrics.Committed}
	s, err := badgerstore.Open(b.directory, o)
	for waited := time.Duration(0); errors.Is(err, badgerstore.ErrInUse) && waited < timeout; waited += pause {
		time.Sleep(pause)
		s, err = badgerstore.Open(b.directory, o)
	}
	if err != nil {
		return pool.Backend{}, err
	}
	attempts := login.NewMemory(time.Now, s)
	err = attempts.Restore(context.Background())
	closeAll := func() error { return errors.Join(attempts.Close(), s.Close()) }
	return pool.Backend{Engine: s, Limiter: login.New(attempts), Close: closeAll}, err
}

// Restore implements pool.Opener.
func (b *BadgerStore) Restore(_ context.Context, pieces iter.Seq2[book.Piece, error]) error {
	return badgerstore.Restore(b.directory, badgerstore.Options{Logger: pool.ProcessLog("tollgate.store")}, pieces)
}

// UnmarshalCaddyfile parses the store's part of the option store:
//
//	store badger <directory> {
//		sync [on|off]
//	}
func (b *BadgerStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the store's name
	if !d.AllArgs(&b.Directory) {
		return d.Err("wrong arguments: write store badger <directory>")
	}
	return block.New(d).Block("", block.Once("sync [on|off]", &b.Sync))
}

// Interface guards.
var (
	_ caddy.Provisioner     = (*BadgerStore)(nil)
	_ caddyfile.Unmarshaler = (*BadgerStore)(nil)
	_ pool.Opener           = (*BadgerStore)(nil)
)
