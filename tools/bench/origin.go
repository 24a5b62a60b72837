package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// origin is the upstream: it gives every request the same answer, of the
// size of a real one, and does no work for it.
type origin struct {
	address string
	server  *http.Server
	ended   chan error
}

const originAnswer = `{"from":"EUR","to":"USD","amount":10,"rate":1.15234,"result":11.5234,"rounded":11.52,"date":"2026-01-02","source":"ecb"}`

func startOrigin(ctx context.Context) (*origin, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	body, contentType := []byte(originAnswer), []string{"application/json; charset=utf-8"}
	o := &origin{address: listener.Addr().String(), ended: make(chan error, 1)}
	o.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = contentType
			w.Write(body)
		}),
	}
	go func() { o.ended <- o.server.Serve(listener) }()
	return o, nil
}

// stop closes the listener and all connections.
func (o *origin) stop() error {
	err := o.server.Close()
	if ended := <-o.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
