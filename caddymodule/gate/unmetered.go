package gate

import (
	"io"
	"net/http"
	"strings"
)

// unmetered is the ResponseWriter of a request that is let through without
// being counted: a login, or a request outside of the guard. It keeps the
// gate's headers of an upstream from the client.
type unmetered struct {
	http.ResponseWriter
	// settle is told the status of the final answer before the client can
	// read it, or 0 if there was none. May be nil.
	settle func(status int)
	body   *body // of the request if the gate watches it, or nil
	begun  bool
	gone   bool // the server took the client for gone; see WriteHeader
}

// Unwrap gives http.ResponseController the writer below.
func (u *unmetered) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// begin settles the request, the first time that there is a status.
func (u *unmetered) begin(status int) {
	if u.begun {
		return
	}
	u.begun = true
	if u.settle != nil {
		u.settle(status)
	}
	strip(u.Header())
}

// end completes a request whose handler has returned or panicked.
func (u *unmetered) end() {
	u.begin(0)
	stripTrailers(u.Header())
}

// WriteHeader sees the status of the final answer. A client that broke its
// body may wait for the answer, so it gets a refusal instead of the 499 of
// Caddy's proxy.
func (u *unmetered) WriteHeader(status int) {
	if status == statusClientGone && u.body.fault() != nil {
		u.gone = true
		return
	}
	if isFinal(status) {
		u.begin(status)
	} else {
		strip(u.Header())
	}
	u.ResponseWriter.WriteHeader(status)
}

// Write answers 200 if nothing was answered yet.
func (u *unmetered) Write(b []byte) (int, error) {
	u.begin(http.StatusOK)
	return u.ResponseWriter.Write(b)
}

// ReadFrom lets the writer below take the body by its fastest way.
func (u *unmetered) ReadFrom(r io.Reader) (int64, error) {
	u.begin(http.StatusOK)
	return io.Copy(u.ResponseWriter, r)
}

// FlushError sends the headers if they are not sent, so it completes them
// too.
func (u *unmetered) FlushError() error {
	u.begin(http.StatusOK)
	return http.NewResponseController(u.ResponseWriter).Flush()
}

// isFinal tells a final status from those that another one follows.
func isFinal(status int) bool { return status >= 200 || status == http.StatusSwitchingProtocols }

// strip removes the headers that only the gate sets, and that only a
// service receives, from an answer.
func strip(h http.Header) {
	for name := range h {
		switch {
		case name == "Trailer":
			unannounce(h)
		case isReserved(name):
			delete(h, name)
		}
	}
}

// isReserved recognises the gate's headers, also as trailers that are not
// announced.
func isReserved(name string) bool { return isIdentity(strings.TrimPrefix(name, http.TrailerPrefix)) }

// unannounce removes the gate's headers from those that are announced as
// trailers. Servers send no other trailers, except by TrailerPrefix.
func unannounce(h http.Header) {
	var kept []string
	for _, value := range h["Trailer"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); !isIdentity(name) {
				kept = append(kept, name)
			}
		}
	}
	if len(kept) == 0 {
		delete(h, "Trailer")
		return
	}
	h["Trailer"] = []string{strings.Join(kept, ", ")}
}

// stripTrailers removes the gate's headers from trailers that a handler
// has set behind the body without announcing them.
func stripTrailers(h http.Header) {
	for name := range h {
		if isReserved(name) {
			delete(h, name)
		}
	}
}
