package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// measureGarbage measures what a call allocates in one process, and what the
// variables of Go's garbage collector change. The default of GOGC is 100.
// Caddy sets GOMEMLIMIT to nine tenths of the memory of the machine.
func measureGarbage(ctx context.Context, b *bench) ([]row, error) {
	var sides []*side
	for _, variables := range [][]string{nil, nil, {"GOGC=200"}, {"GOGC=400"}, {"GOGC=off", "GOMEMLIMIT=256MiB"}} {
		one, err := b.startOne(ctx, variables...)
		if err != nil {
			return nil, err
		}
		generator, err := newGenerator(b.dir, one.ample, false)
		if err != nil {
			return nil, err
		}
		sides = append(sides, &side{server: one.server, generator: generator})
	}
	usual := baseline{sides[0], sides[1]}
	if err := loadInTurn(ctx, b, usual, sides[2:]...); err != nil {
		return nil, err
	}
	var rows []row
	for _, s := range sides[2:] {
		setting := strings.Join(s.variables, " ")
		rows = append(rows, usual.ratio("one process, "+setting+": requests/s", target{}, rate, s),
			usual.ratio("  processor time per request", target{}, cpu, s),
			usual.ratio("  p99", target{}, p99, s),
			usual.added("  memory, resident", target{}, resident, s))
	}
	rows = append(rows, usual.alone("one process, GOGC=100: memory, resident", asMiB, resident))
	list, err := b.allocations(ctx, sides[0])
	if err != nil {
		return rows, fmt.Errorf("measuring allocations: %w", err)
	}
	return append(rows, allocationRows(list)...), nil
}

// allocated are the metrics of what a Caddy has allocated since it started.
var allocated = []string{"go_memstats_mallocs_total", "go_memstats_alloc_bytes_total"}

// allocations are the allocations of a call, by part of the code.
type allocations struct {
	objects, bytes float64
	gate, upstream part
}

// part is the share of a part of the code in the allocations.
type part struct{ objects, bytes float64 }

// allocations loads a side and returns its allocations for each call.
func (b *bench) allocations(ctx context.Context, s *side) ([]allocations, error) {
	list := make([]allocations, b.repeats)
	for i := range list {
		before, err := readMetrics(ctx, s.admin, allocated...)
		if err != nil {
			return nil, err
		}
		l, err := s.generator.run(ctx, s.address, time.Duration(b.seconds)*time.Second)
		if err != nil {
			return nil, err
		}
		after, err := readMetrics(ctx, s.admin, allocated...)
		if err != nil {
			return nil, err
		}
		p, err := s.loadWhile(ctx, time.Duration(b.seconds)*time.Second, "allocs")
		if err != nil {
			return nil, err
		}
		if list[i], err = partsOf(p); err != nil {
			return nil, err
		}
		spent := differences(after, before)
		list[i].objects, list[i].bytes = spent[0]/float64(l.Requests), spent[1]/float64(l.Requests)
	}
	return list, nil
}

func allocationRows(list []allocations) []row {
	return []row{
		{what: "one process: allocations of a call", unit: asCount, measured: valuesOf(list, func(a allocations) float64 { return a.objects })},
		{what: "  of the gate", unit: asPercent, measured: valuesOf(list, func(a allocations) float64 { return a.gate.objects })},
		{what: "  of the upstream", unit: asPercent, measured: valuesOf(list, func(a allocations) float64 { return a.upstream.objects })},
		{what: "one process: allocated memory of a call", unit: asBytes, measured: valuesOf(list, func(a allocations) float64 { return a.bytes })},
		{what: "  of the gate", unit: asPercent, measured: valuesOf(list, func(a allocations) float64 { return a.gate.bytes })},
		{what: "  of the upstream", unit: asPercent, measured: valuesOf(list, func(a allocations) float64 { return a.upstream.bytes })},
	}
}

// partsOf divides the samples of a profile of allocations.
func partsOf(p *profile.Profile) (a allocations, err error) {
	var all part
	for _, sample := range p.Sample {
		n := part{float64(sample.Value[0]), float64(sample.Value[1])}
		all.add(n)
		switch owner := allocator(functions(sample)); {
		case strings.HasPrefix(owner, gatePackage):
			a.gate.add(n)
		case strings.HasPrefix(owner, project+"upstream/"):
			a.upstream.add(n)
		}
	}
	if all.objects == 0 || all.bytes == 0 {
		return a, errors.New("the profile has no samples")
	}
	a.gate.divide(all)
	a.upstream.divide(all)
	return a, nil
}

func (p *part) add(n part)      { p.objects, p.bytes = p.objects+n.objects, p.bytes+n.bytes }
func (p *part) divide(all part) { p.objects, p.bytes = p.objects/all.objects, p.bytes/all.bytes }

// allocator returns the function of the project, of Caddy or of the server in
// net/http that allocated. Functions of other packages allocate for their
// callers.
func allocator(stack []string) string {
	for _, name := range stack {
		for _, prefix := range [...]string{project, "github.com/caddyserver/", "net/http.(*response)", "net/http.(*chunkWriter)", "net/http.(*conn)"} {
			if strings.HasPrefix(name, prefix) {
				return name
			}
		}
	}
	return ""
}
