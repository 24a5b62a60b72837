package main

import (
	"testing"

	"github.com/google/pprof/profile"
)

// An allocation counts for the innermost function of the project, Caddy or
// net/http's server. The numbers are powers of two, so the sums tell them
// apart.
func TestPartsOf(t *testing.T) {
	t.Parallel()
	const (
		identify = project + "internal/gate.(*Gate).identify"
		answer   = project + "internal/gate.(*answer).WriteHeader"
		convert  = project + "upstream/currency/api.(*service).convert"
		caddy    = "github.com/caddyserver/caddy/v2/modules/caddyhttp.prepareRequest"
		response = "net/http.(*response).WriteHeader"
		conn     = "net/http.(*conn).serve"
	)
	p := profileOf(stacks{
		1:  {"runtime.newobject", identify, caddy, conn},
		2:  {"net/http.Header.Clone", response, answer, convert, identify, caddy, conn},
		4:  {"net/textproto.MIMEHeader.Set", convert, identify, caddy, conn},
		8:  {"context.WithValue", caddy, conn},
		16: {"net/http.readRequest", conn},
		32: {"runtime.gcBgMarkWorker"},
	})
	got, err := partsOf(p)
	want := allocations{gate: part{1. / 63, 1. / 63}, upstream: part{4. / 63, 4. / 63}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := partsOf(&profile.Profile{}); err == nil {
		t.Errorf("no samples: got %+v, want an error", got)
	}
}
