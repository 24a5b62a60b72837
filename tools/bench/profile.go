package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// Packages in the names of functions.
const (
	project     = "github.com/caddy-tollgate/tollgate/"
	apiPackage  = project + "upstream/currency/api."
	gatePackage = project + "caddymodule"
	apiErrors   = gatePackage + "/apierror."
)

// shares are parts of the processor samples of a process.
type shares struct {
	api       float64 // in the upstream's API, without the gate's work on its answer
	upstream  float64 // in the upstream, without the same
	collector float64 // in the garbage collector
}

// loadProfiled loads a side while it profiles its Caddy.
func (s *side) loadProfiled(ctx context.Context, duration time.Duration) (shares, error) {
	p, err := s.loadWhile(ctx, duration, "profile")
	if err != nil {
		return shares{}, err
	}
	return sharesOf(p)
}

// loadWhile loads a side while it takes a profile of its Caddy.
func (s *side) loadWhile(ctx context.Context, duration time.Duration, name string) (*profile.Profile, error) {
	loaded := make(chan error, 1)
	go func() {
		_, err := s.generator.run(ctx, s.address, duration+time.Second) // longer than the profile
		loaded <- err
	}()
	p, err := takeProfile(ctx, s.admin, name, duration)
	if loading := <-loaded; loading != nil {
		return nil, loading
	}
	if err != nil {
		return nil, fmt.Errorf("profiling: %w", err)
	}
	return p, nil
}

// takeProfile reads a profile from Caddy's administration: "profile" of the
// processor, or "allocs".
func takeProfile(ctx context.Context, admin, name string, duration time.Duration) (*profile.Profile, error) {
	data, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", admin, name, int(duration.Seconds())))
	if err != nil {
		return nil, err
	}
	return profile.ParseData(data)
}

// sharesOf weighs samples by their number.
func sharesOf(p *profile.Profile) (s shares, err error) {
	var all float64
	for _, sample := range p.Sample {
		n := float64(sample.Value[0])
		all += n
		stack := functions(sample)
		if slices.ContainsFunc(stack, inCollector) {
			s.collector += n
		}
		if ofGate(stack) {
			continue
		}
		if slices.ContainsFunc(stack, in(project+"upstream/")) {
			s.upstream += n
		}
		if slices.ContainsFunc(stack, in(apiPackage)) {
			s.api += n
		}
	}
	if all == 0 {
		return s, errors.New("the profile has no samples")
	}
	return shares{s.api / all, s.upstream / all, s.collector / all}, nil
}

// functions returns the names on the stack of a sample, the leaf first.
func functions(sample *profile.Sample) []string {
	var names []string
	for _, location := range sample.Location {
		for _, line := range location.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

// ofGate tells whether the innermost function of the project is the gate's.
// It works on the answer when the API writes it, so it is then below the API
// on the stack. Both use the package apierror.
func ofGate(stack []string) bool {
	for _, name := range stack {
		if strings.HasPrefix(name, project) {
			return strings.HasPrefix(name, gatePackage) && !strings.HasPrefix(name, apiErrors)
		}
	}
	return false
}

func in(prefix string) func(name string) bool {
	return func(name string) bool { return strings.HasPrefix(name, prefix) }
}

// inCollector recognizes the background work of the collector, and the work
// that goroutines do for it.
func inCollector(name string) bool {
	switch name {
	case "runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep":
		return true
	}
	return false
}
