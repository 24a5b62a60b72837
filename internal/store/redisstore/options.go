package redisstore

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Defaults and bounds of Options.
const (
	DefaultPrefix   = "tollgate"
	DefaultTimeout  = 500 * time.Millisecond
	DefaultInFlight = 4096

	minTimeout      = 10 * time.Millisecond
	maxTimeout      = 10 * time.Second
	maxInFlight     = 1 << 16
	maxWaitReplicas = 16
)

// Options of a store. Zero fields are the defaults.
type Options struct {
	// URL is where the server is, as in the module redis.Store. Required. A
	// URL of Sentinel may have the parameters sentinel_user and
	// sentinel_password, for the sentinels themselves. With CA, Sentinel and
	// Cluster use TLS as well.
	URL string
	// Prefix begins the name of each key: 1 to 64 of A-Z a-z 0-9 . _ -.
	Prefix string
	// Timeout is how long a call waits for the server: 10 ms to 10 s.
	Timeout time.Duration
	// InFlight is how many calls wait for the server at most. One more is
	// refused at once.
	InFlight int
	// WaitReplicas is how many replicas must have a change of an account or
	// a key before it is confirmed: 0 to 16.
	WaitReplicas int
	// AllowEviction allows a server that deletes keys when its memory is
	// full. That resets quotas.
	AllowEviction bool
	// CA is a file with the certificates that sign the server's certificate.
	// Cert and Key are files with the certificate of this client.
	CA, Cert, Key string

	// Logger gets changes of the state. Nil discards them.
	Logger *slog.Logger
	// Committed is called after each Take that the server answered, with the
	// time of the round trip and 1. Nil is not called.
	Committed func(took time.Duration, calls int)

	// restore opens a client that leaves no traces of a gate.
	restore bool
}

// errURL says which URLs there are. It never contains the URL, because that has
// a password.
var errURL = errors.New("invalid URL: use redis://, rediss://, unix://, redis+sentinel://host,host/master or redis+cluster://host,host")

var prefixes = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Validate returns the first error of the options. It does not connect, and
// reads no files.
func (o Options) Validate() error {
	_, err := o.resolve()
	return err
}

// resolve replaces zero fields by their defaults and checks all of them.
func (o Options) resolve() (Options, error) {
	o.Prefix, o.Timeout, o.InFlight = cmp.Or(o.Prefix, DefaultPrefix), cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.InFlight, DefaultInFlight)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Committed == nil {
		o.Committed = func(time.Duration, int) {}
	}
	_, err := parseURL(o.URL)
	switch {
	case err != nil:
		return o, err
	case !prefixes.MatchString(o.Prefix):
		return o, fmt.Errorf("invalid prefix %q: use 1 to 64 of A-Z a-z 0-9 . _ -", o.Prefix)
	case o.Timeout < minTimeout || o.Timeout > maxTimeout:
		return o, fmt.Errorf("invalid timeout %v: use %v to %v", o.Timeout, minTimeout, maxTimeout)
	case o.InFlight < 1 || o.InFlight > maxInFlight:
		return o, fmt.Errorf("invalid in_flight %d: use 1 to %d", o.InFlight, maxInFlight)
	case o.WaitReplicas < 0 || o.WaitReplicas > maxWaitReplicas:
		return o, fmt.Errorf("invalid wait_replicas %d: use 0 to %d", o.WaitReplicas, maxWaitReplicas)
	case (o.Cert == "") != (o.Key == ""):
		return o, errors.New("a certificate of the client needs cert and key")
	case o.CA+o.Cert != "" && (strings.HasPrefix(o.URL, "redis:") || strings.HasPrefix(o.URL, "unix:")):
		return o, errors.New("certificates need TLS: use rediss://")
	}
	return o, nil
}

// location is a parsed URL.
type location struct {
	rueidis.ClientOption
	tls     bool
	cluster bool
	network string // tcp or unix
}

// Name returns a name of the data without secrets, for logs. Stores with the
// same name and prefix have the same data.
func (o Options) Name() string {
	u, hosts, err := splitURL(o.URL)
	if err != nil {
		return "redis"
	}
	if db := u.Query().Get("db"); db != "" {
		u.Path += "?db=" + db
	}
	return u.Scheme + "://" + hosts + u.Path + " " + cmp.Or(o.Prefix, DefaultPrefix)
}

// splitURL parses a URL that may have several hosts, which url.Parse refuses.
func splitURL(text string) (u *url.URL, hosts string, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts = rest[begin:end]
	if u, err = url.Parse(scheme + "://" + rest[:begin] + rest[end:]); err != nil {
		return nil, "", errURL // the error of the parser has the password
	}
	return u, hosts, nil
}

func parseURL(text string) (location, error) {
	u, hosts, err := splitURL(text)
	if err != nil {
		return location{}, err
	}
	l := location{network: "tcp"}
	database := strings.TrimPrefix(u.Path, "/")
	query := u.Query()
	switch u.Scheme {
	case "rediss":
		l.tls = true
		fallthrough
	case "redis":
		l.ForceSingleClient = true
		if strings.Contains(hosts, ",") {
			return location{}, errURL
		}
	case "unix":
		l.network, l.ForceSingleClient = "unix", true
		if hosts != "" || u.Path == "" {
			return location{}, errURL
		}
		l.InitAddress = []string{u.Path}
		database = query.Get("db")
		query.Del("db")
	case "redis+sentinel":
		l.Sentinel.MasterSet, database, _ = strings.Cut(database, "/")
		if l.Sentinel.MasterSet == "" {
			return location{}, errors.New("invalid URL: name the master: redis+sentinel://host,host/master")
		}
		l.Sentinel.Username, l.Sentinel.Password = query.Get("sentinel_user"), query.Get("sentinel_password")
		query.Del("sentinel_user")
		query.Del("sentinel_password")
	case "redis+cluster":
		l.cluster = true
		if database != "" {
			return location{}, errors.New("invalid URL: a cluster has no databases")
		}
	default:
		return location{}, errURL
	}
	if len(query) > 0 || u.Fragment != "" {
		return location{}, errors.New("invalid URL: unknown parameter")
	}
	if database != "" {
		if l.SelectDB, err = strconv.Atoi(database); err != nil || l.SelectDB < 0 {
			return location{}, errors.New("invalid URL: the database is not a number")
		}
	}
	if u.User != nil {
		l.Username = u.User.Username()
		l.Password, _ = u.User.Password()
	}
	if l.network == "unix" {
		return l, nil
	}
	port := "6379"
	if l.Sentinel.MasterSet != "" {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		address, err := withPort(host, port)
		if err != nil {
			return location{}, err
		}
		l.InitAddress = append(l.InitAddress, address)
	}
	return l, nil
}

// withPort returns the address of a host that may have a port.
func withPort(host, port string) (string, error) {
	invalid := errors.New("invalid URL: invalid host or port")
	u, err := url.Parse("//" + host)
	if err != nil {
		return "", invalid
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if n, err := strconv.Atoi(port); u.Hostname() == "" || err != nil || n < 1 || n > 65535 {
		return "", invalid
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// tlsConfig reads the certificates. It returns nil without TLS.
func (o Options) tlsConfig(l location) (*tls.Config, error) {
	if !l.tls && o.CA+o.Cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("reading ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading ca: %s has no certificate", o.CA)
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("reading cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
