package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// mostConnections is the end of the graph of connections: 1, 2, 4 and so on.
const mostConnections = 512

// drawPeers loads all servers of measurePeers with more and more connections,
// and writes two graphs.
func (b *bench) drawPeers(ctx context.Context, p peers) error {
	speed := chart{title: "Requests per second", under: "connections", text: asCount}
	latency := chart{title: fmt.Sprintf("Milliseconds with %d connections", connections), under: "calls that took no longer", text: asTenths}
	for _, peer := range p.servers() {
		speed.lines, latency.lines = append(speed.lines, line{name: peer.what}), append(latency.lines, line{name: peer.what})
	}
	for _, part := range percentiles {
		latency.steps = append(latency.steps, fmt.Sprintf("%g %%", part))
	}
	for c := 1; c <= mostConnections; c *= 2 {
		speed.steps = append(speed.steps, fmt.Sprint(c))
		loads := make([][]load, len(speed.lines))
		for range b.repeats {
			for i, peer := range p.servers() {
				g := peer.side.generator
				g.connections = c
				l, err := g.run(ctx, peer.side.address, time.Duration(b.seconds)*time.Second)
				if err != nil {
					return err
				}
				loads[i] = append(loads[i], l)
			}
		}
		for i, of := range loads {
			speed.lines[i].add(valuesOf(of, load.rate).median())
			for n := range percentiles {
				if c == connections {
					latency.lines[i].add(valuesOf(of, func(l load) float64 { return float64(l.Latency[n]) / 1e3 }).median())
				}
			}
		}
	}
	return errors.Join(speed.write(filepath.Join(b.graphs, "speed-connections.svg")), latency.write(filepath.Join(b.graphs, "speed-latency.svg")))
}
