package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	upstreamserver "github.com/caddy-tollgate/tollgate/upstream/server"
)

const upstreamBody = `{"from":"EUR","to":"USD","amount":10,"rate":1.15234,"result":11.5234,"rounded":11.52,"date":"2026-01-02","source":"ecb"}`

var upstreamAnswer = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nDate: Fri, 02 Jan 2026 16:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s",
	len(upstreamBody), upstreamBody)

// listen listens at a free port.
func listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

// startUpstream starts a server that gives every request the same answer, of a
// usual size. It shares the processors with the programs under test, so it does
// as little as possible: it does not even read the headers.
func (b *bench) startUpstream(ctx context.Context) error {
	listener, err := listen(ctx)
	if err != nil {
		return err
	}
	b.upstream = listener.Addr().String()
	b.stops = append(b.stops, listener.Close)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the listener is closed
			}
			go func() {
				defer conn.Close()
				answer(conn)
			}()
		}
	}()
	return nil
}

// answer answers requests without a body until the client closes the
// connection.
func answer(conn io.ReadWriter) {
	in, out := bufio.NewReader(conn), []byte(upstreamAnswer)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimRight(line, "\r\n")) > 0 {
			continue
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// site is the address of all sites. Assertions do not depend on the port.
const site = "http://127.0.0.1"

// startCurrency serves the currency API as bin/upstream does, and also to
// proxies without a gate: it checks an assertion only if there is one. It works
// in this process, which does little else during a load.
func (b *bench) startCurrency(ctx context.Context) (address string, err error) {
	logger := slog.New(slog.DiscardHandler)
	control, err := client.New("http://127.0.0.1:1", secret) // only logins need one
	if err != nil {
		return "", err
	}
	check, err := app.CheckAssertions(secret, site, control, logger)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(b.dir, "currency-")
	if err != nil {
		return "", err
	}
	config, err := app.Settings{Address: site, Data: dir, Rates: "embedded"}.Parse()
	if err != nil {
		return "", err
	}
	currency, err := app.Open(ctx, config, control, logger)
	if err != nil {
		return "", err
	}
	b.stops = append(b.stops, currency.Close)
	handler, err := currency.Handler(config, func(r *http.Request, purpose string) error {
		if len(r.Header[assertion.Header]) == 0 {
			return nil
		}
		return check(r, purpose)
	})
	if err != nil {
		return "", err
	}
	listener, err := listen(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- upstreamserver.Serve(ctx, listener, handler, logger) }()
	b.stops = append(b.stops, func() error { cancel(); return <-served })
	return listener.Addr().String(), nil
}
