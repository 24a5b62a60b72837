package main

import (
	"testing"

	"github.com/google/pprof/profile"
)

// A sample counts as the API's unless the gate works on its answer. The
// numbers of the samples are powers of two, so the sum tells them apart.
func TestPartInAPI(t *testing.T) {
	t.Parallel()
	const (
		gate     = project + "internal/gate.(*answer).WriteHeader"
		handler  = project + "caddymodule.(*Handler).ServeHTTP"
		convert  = project + "upstream/currency/api.(*service).convert"
		generic  = project + "upstream/currency/api.marshal[...]"
		accept   = project + "internal/apierror.Mux.func1"
		upstream = project + "upstream/server.New.func2"
	)
	p := &profile.Profile{}
	for n, names := range map[int64][]string{ // the innermost function first
		1:  {"runtime.mallocgc", convert, "huma.Register", upstream, handler, "net/http.serve"},
		2:  {"time.Now", gate, convert, upstream, handler},
		4:  {"strings.Cut", accept, generic, upstream, handler},
		8:  {"crypto.Sum", gate, handler},
		16: {"huma.Register", upstream, handler},
		32: {"syscall.write", "net/http.serve"},
		64: nil,
	} {
		sample := &profile.Sample{Value: []int64{n, n * 10_000_000}}
		for _, name := range names {
			sample.Location = append(sample.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
		}
		p.Sample = append(p.Sample, sample)
	}
	if got, err := partInAPI(p); err != nil || got != (1+4)/127. {
		t.Errorf("got %v, %v, want 5 of 127", got, err)
	}
	if got, err := partInAPI(&profile.Profile{}); err == nil {
		t.Errorf("no samples: got %v, want an error", got)
	}
}
