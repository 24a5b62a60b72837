package main

import (
	"math"
	"strings"
	"testing"
)

// Each row compares the sides that its name says.
func TestPeerRows(t *testing.T) {
	t.Parallel()
	p := peersOf(measured{rate: 1000}, measured{rate: 990}, measured{rate: 900}, measured{rate: 800}, measured{rate: 1200}, measured{rate: 3000}, measured{rate: 3060})
	got := map[string]row{}
	for _, r := range peerRows(p) {
		got[strings.TrimSuffix(strings.TrimSpace(r.what), ", requests/s")] = r
	}
	for what, want := range map[string]struct {
		measured, noise float64
		target          target
	}{
		"currency API, against Caddy's proxy: gate and proxy": {0.9, 0.99, target{}},
		"gate and proxy, store redis":                         {0.8, 0.99, target{}},
		"nginx, Lua and Redis":                                {1.2, 0.99, target{}},
		"one process":                                         {3, 0.99, target{}},
		"one process against gate and proxy":                  {3.0 / 0.9, 1.02, atLeast(2.5)},
		"one process against nginx, Lua and Redis":            {2.5, 1.02, atLeast(2)},
		"gate and proxy against nginx, Lua and Redis":         {0.75, 0.99, target{}},
	} {
		r, found := got[what]
		if !found || math.Abs(r.measured.median()-want.measured) > 1e-9 || math.Abs(r.noise.median()-want.noise) > 1e-9 || r.target != want.target {
			t.Errorf("%s: got %+v, want %+v", what, r, want)
		}
	}
	rows := profileRows([]shares{{0.1, 0.2, 0.3}})
	if rows[0].target != atMost(0.15) || rows[0].measured[0] != 0.1 || rows[1].measured[0] != 0.2 || rows[2].measured[0] != 0.3 {
		t.Errorf("got %+v", rows)
	}
}

func peersOf(proxy, proxy2, gate, onRedis, nginx, one, one2 measured) peers {
	of := func(m measured) *side { return &side{rounds: []measured{m}} }
	return peers{
		proxy: baseline{of(proxy), of(proxy2)}, gate: of(gate), gateOnRedis: of(onRedis), nginx: of(nginx), one: baseline{of(one), of(one2)},
	}
}

func TestWritePeers(t *testing.T) {
	t.Parallel()
	m := func(rate float64) measured {
		return measured{rate: rate, p50: 2.5e6, p99: 10e6, cpu: 95.5e3, memory: memory{resident: 40 << 20, proportional: 1}}
	}
	var out strings.Builder
	if err := peersOf(m(1), m(2), m(3), m(4), m(5), m(6), m(7)).write(&out); err != nil {
		t.Fatal(err)
	}
	want := "currency API requests/s p50 p99 processor time per request memory"
	for _, line := range []string{"Caddy's proxy 1", "gate and proxy 3", "gate and proxy, store redis 4", "nginx, Lua and Redis 5", "one process 6"} {
		want += " " + line + " 2.50 ms 10.00 ms 95.5 µs 40.0 MiB"
	}
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("got\n%s\nwant (spaces may differ)\n%s", out.String(), want)
	}
}
