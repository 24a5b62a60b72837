// Package redis adds the store "redis" to the gate: a Redis or Valkey server for
// several gates. A Caddy without this package does not have it:
//
//	xcaddy build --with github.com/caddy-tollgate/tollgate/caddymodule/redis
package redis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	_ "github.com/caddy-tollgate/tollgate/caddymodule" // the app that uses the store
	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/metrics"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
)

// Store keeps API keys, accounts, quotas, usage and login attempts in Redis or
// Valkey, for several gates. All gates of one service use the same URL and prefix.
// See docs/scaling.md, also for the versions.
//
// Another host, database, master or prefix is another store. Changes of the other
// settings, and of user and password, take effect after a restart of Caddy.
type Store struct {
	// URL is where the server is. Required. One of
	//
	//	redis://[user:password@]host[:port][/database]
	//	rediss://… for TLS
	//	unix://[user:password@]/path/to/socket[?db=database]
	//	redis+sentinel://[user:password@]host[:port],host…/master[/database]
	//	redis+cluster://[user:password@]host[:port],host…
	//
	// Placeholders such as {env.REDIS_PASSWORD} are resolved when the
	// configuration is loaded.
	URL string `json:"url,omitempty"`

	// Prefix begins the names of all keys, so that other programs can use
	// the same server. Default: tollgate.
	Prefix string `json:"prefix,omitempty"`

	// Timeout is how long a request waits for the server. After that it is
	// answered with 503. Default: 500ms.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// InFlight is how many requests wait for the server at the same time.
	// One more is answered with 503 at once. Default: 4096.
	InFlight int `json:"in_flight,omitempty"`

	// WaitReplicas is how many replicas must have a change of an account or
	// a key before it is confirmed. With fewer, the change is answered with
	// 503. Without it, a failover can lose a revocation. Default: 0.
	WaitReplicas int `json:"wait_replicas,omitempty"`

	// AllowEviction allows a server whose maxmemory-policy deletes keys when
	// its memory is full. Quotas then begin again. Default: off.
	AllowEviction bool `json:"allow_eviction,omitempty"`

	// CAFile has the certificates that sign the certificate of the server.
	// Default: those of the system. With this or cert, Sentinel and Cluster
	// use TLS.
	CAFile string `json:"ca,omitempty"`

	// CertFile has the certificate of the gate, for a server that requires
	// one. Default: none.
	CertFile string `json:"cert,omitempty"`

	// KeyFile has the private key of that certificate. Default: none.
	KeyFile string `json:"key,omitempty"`

	options redisstore.Options
}

func init() { caddy.RegisterModule((*Store)(nil)) }

// CaddyModule returns the Caddy module information.
func (*Store) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tollgate.stores.redis", New: func() caddy.Module { return new(Store) }}
}

// Provision resolves the placeholders and checks the settings. It does not
// connect.
func (r *Store) Provision(caddy.Context) error {
	address, err := resolveURL(r.URL)
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	r.options = r.written()
	r.options.URL = address
	for name, file := range map[string]*string{"ca": &r.options.CA, "cert": &r.options.Cert, "key": &r.options.Key} {
		if *file, err = block.Resolve(*file, "", nil); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return r.options.Validate()
}

// written returns the options with their placeholders.
func (r *Store) written() redisstore.Options {
	return redisstore.Options{
		URL: r.URL, Prefix: r.Prefix, Timeout: time.Duration(r.Timeout), InFlight: r.InFlight,
		WaitReplicas: r.WaitReplicas, AllowEviction: r.AllowEviction, CA: r.CAFile, Cert: r.CertFile, Key: r.KeyFile,
	}
}

// resolveURL resolves the placeholders of a URL. A user or a password can have
// any characters. Errors do not contain the values.
func resolveURL(text string) (string, error) {
	if text == "" {
		return "", errors.New("required")
	}
	user, rest := text[:strings.LastIndexByte(text, '@')+1], text[strings.LastIndexByte(text, '@')+1:]
	user, err := block.Resolve(user, "", func(value string) string { return url.User(value).String() })
	if err != nil {
		return "", err
	}
	rest, err = block.Resolve(rest, "", nil)
	return user + rest, err
}

// Key implements pool.Opener.
func (r *Store) Key() string { return r.options.Name() }

// Settings implements pool.Opener.
func (r *Store) Settings() any {
	o := r.options
	o.Prefix = "" // it is a part of Key
	return fmt.Sprintf("%+v", o)
}

// Open implements pool.Opener. It does not wait for the server: a gate whose
// server is down starts, and is not ready.
func (r *Store) Open() (pool.Backend, error) {
	o := r.options
	o.Logger = outage.Logger(pool.ProcessLog("tollgate.store"))
	o.Committed = metrics.Committed
	s, err := redisstore.Open(o)
	if err != nil {
		return pool.Backend{}, err
	}
	failures := outage.New(o.Logger, slog.LevelError, "asking redis about login attempts")
	return pool.Backend{Engine: s, Limiter: login.NewShared(s.Attempts(), s.Timeout(), failures), Close: s.Close}, nil
}

// Restore implements pool.Opener.
func (r *Store) Restore(ctx context.Context, pieces iter.Seq2[book.Piece, error]) error {
	o := r.options
	o.Logger = outage.Logger(pool.ProcessLog("tollgate.store"))
	return redisstore.Restore(ctx, o, pieces)
}

// UnmarshalCaddyfile parses the store's part of the option store:
//
//	store redis <url> {
//		prefix         <text>
//		timeout        <duration>
//		in_flight      <number>
//		wait_replicas  <number>
//		allow_eviction [on|off]
//		ca             <file>
//		cert           <file>
//		key            <file>
//	}
func (r *Store) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the store's name
	if !d.AllArgs(&r.URL) {
		return d.Err("wrong arguments: write store redis <url>")
	}
	where := block.At(d)
	p := block.New(d)
	var replicas string
	err := p.Block("",
		block.Once("prefix <text>", &r.Prefix),
		block.Once("timeout <duration>", (*time.Duration)(&r.Timeout)),
		block.Once("in_flight <number>", &r.InFlight),
		block.Once("wait_replicas <number>", &replicas, func() (err error) {
			if r.WaitReplicas, err = strconv.Atoi(replicas); err != nil || r.WaitReplicas < 0 {
				return d.Errf("invalid number %q of wait_replicas: use a whole number", replicas)
			}
			return nil
		}),
		block.Once("allow_eviction [on|off]", &r.AllowEviction),
		block.Once("ca <file>", &r.CAFile),
		block.Once("cert <file>", &r.CertFile),
		block.Once("key <file>", &r.KeyFile),
	)
	// A URL with a placeholder is checked in Provision only.
	if err != nil || strings.Contains(r.URL, "{") {
		return err
	}
	if err := r.written().Validate(); err != nil {
		return fmt.Errorf("store redis: %w, at %s", err, where)
	}
	return nil
}

// Interface guards.
var (
	_ caddy.Provisioner     = (*Store)(nil)
	_ caddyfile.Unmarshaler = (*Store)(nil)
	_ pool.Opener           = (*Store)(nil)
)
