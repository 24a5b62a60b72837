package stack

import (
	"os"
	"path/filepath"
	"slices"
)

// Join starts a further gate with the same Caddyfile, settings and upstream,
// and stops it at the end of the test. The gates share accounts only if the
// Caddyfile has a store for several gates.
func (s *Stack) Join() *Stack {
	s.t.Helper()
	caddyfile, err := os.ReadFile(s.Caddyfile)
	if err != nil {
		s.t.Fatal(err)
	}
	dir, ports := s.t.TempDir(), FreePorts(s.t, 3)
	joined := *s
	g := &joined
	g.Address, g.admin, g.control = "http://127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1], "127.0.0.1:"+ports[2]
	g.Caddyfile, g.caddy, g.upstream, g.log = filepath.Join(dir, "Caddyfile"), nil, nil, &Output{}
	g.env = append(slices.Clone(s.env), g.own(dir)...)
	g.Configure(string(caddyfile))
	g.t.Cleanup(func() {
		g.stop(g.caddy)
		if g.t.Failed() {
			g.t.Logf("the output of the gate at %s:\n%s", g.Address, g.log)
		}
	})
	g.StartCaddy()
	return g
}

// Admin returns the URL of Caddy's admin endpoint.
func (s *Stack) Admin() string { return "http://" + s.admin }

// Control returns the URL of the gate's control listener.
func (s *Stack) Control() string { return "http://" + s.control }

// Listen is the host and port of upstream.
func (s *Stack) Listen() string { return s.listen }
