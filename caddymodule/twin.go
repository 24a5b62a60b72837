package caddymodule

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/control"
)

// Caddy lets several processes listen on one port, and the kernel chooses one
// of them for each connection. Two gates that run so by mistake each get a part
// of the calls and of the changes.

const (
	// twinAsks is how many connections look for another gate. If the kernel
	// shares them evenly, one start in 65,536 misses it.
	twinAsks = 16

	// twinWithin is how long the search goes on if no gate answers, and
	// twinTimeout how long it waits for one answer.
	twinWithin  = 30 * time.Second
	twinTimeout = 2 * time.Second
)

// findTwins logs an error for each address of a server with the control API
// where another gate answers. It returns at once, and the search ends with ctx.
func findTwins(ctx context.Context, server *caddyhttp.Server, logger *zap.Logger) {
	for _, listen := range server.Listen {
		address, err := caddy.ParseNetworkAddress(listen)
		if err != nil || address.IsUnixNetwork() || address.StartPort == 0 {
			continue
		}
		for _, one := range address.Expand() {
			go newTwinSearch(server, one).run(ctx, logger)
		}
	}
}

// twinSearch looks for another gate at one address.
type twinSearch struct {
	address string
	urls    []string // one for each host that the server has sites for
	client  http.Client
}

func newTwinSearch(server *caddyhttp.Server, address caddy.NetworkAddress) *twinSearch {
	s, network := &twinSearch{address: address.JoinHostPort(0)}, address.Network
	s.client.Timeout = twinTimeout
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.client.Transport = &http.Transport{
		DisableKeepAlives: true, // each request is a connection of its own
		// Go takes an address without a host, such as 0.0.0.0, for this machine.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.address)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the answer is compared and not trusted
	}
	scheme, hosts := "http://", []string{cmp.Or(address.Host, "localhost")}
	if len(server.TLSConnPolicies) > 0 {
		scheme = "https://"
	}
	for _, route := range server.Routes {
		for _, matchers := range route.MatcherSets {
			for _, matcher := range matchers {
				if of, is := matcher.(*caddyhttp.MatchHost); is {
					hosts = append(hosts, *of...)
				}
			}
		}
	}
	for _, host := range hosts {
		address.Host = host
		s.urls = append(s.urls, scheme+address.JoinHostPort(0)+control.LivePath)
	}
	return s
}

// run asks until another gate answers, or this one alone has answered often.
func (s *twinSearch) run(ctx context.Context, logger *zap.Logger) {
	ctx, cancel := context.WithTimeout(ctx, twinWithin)
	defer cancel()
	pause := 50 * time.Millisecond
	for own := 0; own < twinAsks; {
		switch s.ask(ctx) {
		case control.Instance:
			own++
		case "": // the server does not listen yet
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
				pause *= 2
			}
		default:
			logger.Error("another gate listens on the same address and gets a part of the requests: stop it, or give each gate an address of its own; "+
				"caddy lets several processes listen on one port", zap.String("address", s.address))
			return
		}
	}
}

// ask returns the instance of the gate that answers, or "".
func (s *twinSearch) ask(ctx context.Context) string {
	for _, url := range s.urls {
		r, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
		if err != nil {
			continue // a host with a placeholder
		}
		answer, err := s.client.Do(r)
		if err != nil {
			continue
		}
		answer.Body.Close()
		if id := answer.Header.Get(api.InstanceHeader); id != "" {
			return id
		}
	}
	return ""
}
