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
	var speed, latency []line
	for _, peer := range p.servers() {
		speed, latency = append(speed, line{name: peer.what}), append(latency, line{name: peer.what})
	}
	for c := 1; c <= mostConnections; c *= 2 {
		loads := make([][]load, len(speed))
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
			speed[i].points = append(speed[i].points, point{float64(c), valuesOf(of, load.rate).median()})
			for n, part := range percentiles {
				if c == connections {
					millis := valuesOf(of, func(l load) float64 { return float64(l.Latency[n]) / 1e3 })
					latency[i].points = append(latency[i].points, point{tail(part), millis.median()})
				}
			}
		}
	}
	return errors.Join(
		chart{
			title: "Requests per second by connections", lines: speed,
			x: axis{name: "connections", log: true, ticks: valuesOf(speed[0].points, point.at), text: asCount},
			y: axis{ticks: ticksTo(highest(speed)), text: asCount},
		}.write(filepath.Join(b.graphs, "speed-connections.svg")),
		chart{
			title: fmt.Sprintf("Latency with %d connections, in milliseconds", connections), lines: latency,
			x: axis{name: "calls that took no longer", log: true, ticks: valuesOf(percentiles[:], tail), text: func(v float64) string { return fmt.Sprintf("%.4g %%", 100-100/v) }},
			y: axis{ticks: ticksTo(highest(latency)), text: func(v float64) string { return fmt.Sprintf("%g", v) }},
		}.write(filepath.Join(b.graphs, "speed-latency.svg")),
	)
}

// tail makes a percentile one of how many calls took longer.
func tail(percentile float64) float64 { return 100 / (100 - percentile) }
