package client

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
)

// InProcess returns a client of a gate in the same process: it calls the
// handler of the control API and uses no connection.
func InProcess(handler http.Handler) *Client {
	return &Client{base: "http://localhost", http: &http.Client{Transport: memory{handler}, CheckRedirect: refuseRedirect}}
}

// memory is an http.RoundTripper that calls a handler.
type memory struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper. A panic of the handler is an
// error, as it is over a connection.
func (m memory) RoundTrip(r *http.Request) (response *http.Response, err error) {
	request := r.Clone(r.Context())
	request.RequestURI = r.URL.RequestURI()
	if request.Body == nil {
		request.Body = http.NoBody
	}
	defer request.Body.Close()
	// Do not start a call whose context has ended.
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	defer func() {
		if reason := recover(); reason != nil {
			response, err = nil, &panicError{reason, debug.Stack()}
		}
	}()
	w := &memoryWriter{header: make(http.Header), status: http.StatusOK}
	m.handler.ServeHTTP(w, request)
	// The handler may have stopped because the context ended.
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// panicError is a panic of the handler.
type panicError struct {
	reason any
	stack  []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the control API panicked: %v\n%s", e.reason, e.stack)
}

// memoryWriter is an http.ResponseWriter that keeps the response.
type memoryWriter struct {
	header http.Header
	status int
	began  bool
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *memoryWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. The first final status counts.
func (w *memoryWriter) WriteHeader(status int) {
	if !w.began && status >= http.StatusOK {
		w.status, w.began = status, true
	}
}

// Write implements http.ResponseWriter.
func (w *memoryWriter) Write(p []byte) (int, error) {
	w.began = true
	return w.body.Write(p)
}
