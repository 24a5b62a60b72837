package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
)

// BadgerStore keeps accounts, keys and counts in an embedded Badger
// database: one directory, used by one process.
type BadgerStore struct {
	// Directory is where the database is. It is made if it is missing,
	// and must not be shared with another process. Required.
	Directory string `json:"directory,omitempty"`

	// Sync waits for the disk before a call is let through, so that the
	// count survives not only the end of the process but also the loss of
	// power. Default: off, which syncs every second in the background.
	// Takes effect when the store is opened.
	Sync bool `json:"sync,omitempty"`

	// Reserve is the free space of the disk, in bytes, below which the
	// gate answers 503 instead of writing. Default: 268435456 (256 MiB).
	// Takes effect when the store is opened.
	Reserve uint64 `json:"reserve,omitempty"`

	directory string
}

// CaddyModule returns the Caddy module information.
func (*BadgerStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tollgate.stores.badger", New: func() caddy.Module { return new(BadgerStore) }}
}

// Provision resolves the directory.
func (b *BadgerStore) Provision(caddy.Context) error {
	directory, err := caddy.NewReplacer().ReplaceOrErr(b.Directory, true, true)
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if directory == "" {
		return errors.New("no directory is configured")
	}
	if directory, err = filepath.Abs(directory); err != nil {
		return err
	}
	b.directory = resolved(directory)
	return nil
}

// resolved follows the links in a path of which the end need not exist
// yet: a directory is one store, by whatever names it is called.
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

// Key implements StoreOpener.
func (b *BadgerStore) Key() string { return "badger:" + b.directory }

// badgerSettings is how a store is used.
type badgerSettings struct {
	sync    bool
	reserve uint64
}

// Settings implements StoreOpener.
func (b *BadgerStore) Settings() any {
	return badgerSettings{b.Sync, cmp.Or(b.Reserve, badgerstore.DefaultReserve)}
}

// Open implements StoreOpener. A configuration that is being let go may
// hold the directory for a moment longer, so it is tried again for a
// short while. The store outlives the configuration and so does its
// logger.
func (b *BadgerStore) Open() (store.Store, error) {
	const patience, pause = 2 * time.Second, 50 * time.Millisecond
	o := badgerstore.Options{Sync: b.Sync, Reserve: b.Reserve, Logger: caddy.Log().Named("tollgate.store")}
	s, err := badgerstore.Open(b.directory, o)
	for waited := time.Duration(0); errors.Is(err, badgerstore.ErrInUse) && waited < patience; waited += pause {
		time.Sleep(pause)
		s, err = badgerstore.Open(b.directory, o)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// UnmarshalCaddyfile parses the store's part of the option store:
//
//	store badger <directory> {
//		sync    on|off
//		reserve <size>
//	}
func (b *BadgerStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the store's name
	if !d.AllArgs(&b.Directory) {
		return d.Err("wrong number of arguments: write store badger <directory>")
	}
	seen := map[string]bool{}
	return eachLine(d, func() error {
		name := d.Val()
		var value string
		if seen[name] {
			return d.Errf("%s stands there twice", name)
		}
		seen[name] = true
		if !d.AllArgs(&value) {
			return d.Err("wrong number of arguments: write sync on|off, or reserve <size>")
		}
		if err := b.set(name, value); err != nil {
			return d.WrapErr(err)
		}
		return nil
	})
}

func (b *BadgerStore) set(name, value string) (err error) {
	switch name {
	case "sync":
		if value != "on" && value != "off" {
			return fmt.Errorf("sync is on or off, not %q", value)
		}
		b.Sync = value == "on"
		return nil
	case "reserve":
		b.Reserve, err = humanize.ParseBytes(value)
		if err != nil || b.Reserve == 0 {
			return fmt.Errorf("reserve %q is not a size such as 256MiB", value)
		}
		return nil
	}
	return fmt.Errorf("unknown option %q", name)
}

// Interface guards.
var (
	_ caddy.Provisioner     = (*BadgerStore)(nil)
	_ caddyfile.Unmarshaler = (*BadgerStore)(nil)
	_ StoreOpener           = (*BadgerStore)(nil)
)
