package main

import (
	"math"
	"testing"

	"github.com/google/pprof/profile"
)

// stacks are samples of a profile: how many, and the functions, the leaf
// first.
type stacks map[int64][]string

func profileOf(samples stacks) *profile.Profile {
	p := &profile.Profile{}
	for n, names := range samples {
		sample := &profile.Sample{Value: []int64{n, n * 10_000_000}}
		for _, name := range names {
			f := &profile.Function{Name: name}
			sample.Location = append(sample.Location, &profile.Location{Line: []profile.Line{{Function: f}}})
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

// A sample counts as the API's unless the gate works on its answer. The
// numbers of the samples are powers of two, so the sums tell them apart.
func TestSharesOf(t *testing.T) {
	t.Parallel()
	const (
		gate     = project + "internal/gate.(*answer).WriteHeader"
		handler  = project + "caddymodule.(*Handler).ServeHTTP"
		convert  = project + "upstream/currency/api.(*service).convert"
		generic  = project + "upstream/currency/api.marshal[...]"
		accept   = project + "internal/apierror.Mux.func1"
		upstream = project + "upstream/server.New.func2"
		pages    = project + "upstream/apidocs.Page"
	)
	got, err := sharesOf(profileOf(stacks{
		1:   {"runtime.mallocgc", convert, "huma.Register", upstream, handler, "net/http.serve"},
		2:   {"time.Now", gate, convert, upstream, handler},
		4:   {"strings.Cut", accept, generic, upstream, handler},
		8:   {"crypto.Sum", gate, handler},
		16:  {"huma.Register", upstream, handler},
		32:  {"runtime.scanobject", "runtime.gcBgMarkWorker"},
		64:  {"runtime.gcDrain", "runtime.gcAssistAlloc", "runtime.mallocgc", convert, upstream, handler},
		128: {"syscall.write", "net/http.serve"},
		256: {pages, upstream, handler},
		512: nil,
	}))
	want := shares{api: (1 + 4 + 64) / 1023., upstream: (1 + 4 + 16 + 64 + 256) / 1023., collector: (32 + 64) / 1023.}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := sharesOf(profileOf(nil)); err == nil || math.IsNaN(got.api) {
		t.Errorf("no samples: got %+v, %v, want an error", got, err)
	}
}
