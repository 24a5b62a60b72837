package caddymodule_test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestReload changes the configuration under load: no request fails, and
// every one is counted once.
func TestReload(t *testing.T) {
	s := start(t, setup{zone: calmZone(), port: freePort(t)})
	id, bearer := s.account(t, "business")
	var admitted, cut atomic.Int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := s.try(t.Context(), "GET", convert, "", "Authorization: Bearer "+bearer)
				switch {
				case err != nil:
					cut.Add(1)
				case got.status != 200:
					t.Errorf("got %d %s", got.status, got.body)
				default:
					admitted.Add(1)
				}
			}
		})
	}
	reloads := 20
	if storetest.Long() {
		reloads = 200
	}
	for i := range reloads {
		s.more = fmt.Sprintf("plan extra%d {\nrates %d\n}", i, i)
		if err := s.reload(); err != nil {
			t.Fatalf("reload %d: %v", i, err)
		}
	}
	close(done)
	wg.Wait()
	// A connection that is new or idle when its server stops can be closed
	// under a request, which net/http's server does on paths without a
	// gate as well.
	n := s.used(t, id, "convert")
	if n < admitted.Load() || n > admitted.Load()+cut.Load() || admitted.Load() == 0 {
		t.Errorf("counted %d calls, admitted %d, cut off %d", n, admitted.Load(), cut.Load())
	}
	t.Logf("admitted %d, cut off %d", admitted.Load(), cut.Load())
	if compiled(t).Plan(fmt.Sprintf("extra%d", reloads-1)) == nil {
		t.Error("the last configuration is not in force")
	}
}

// TestReloadWithRequestUnderWay lets a request end that began in a
// configuration which is gone, and gives its call back where it belongs.
func TestReloadWithRequestUnderWay(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	s := start(t, setup{zone: calmZone(), port: freePort(t), more: "refund server_errors", upstream: func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		w.WriteHeader(http.StatusInternalServerError)
	}})
	id, bearer := s.account(t, "small")
	got := make(chan answered)
	go func() {
		answer, _ := s.try(t.Context(), "GET", convert, "", "Authorization: Bearer "+bearer)
		got <- answer
	}()
	<-arrived
	if n := s.used(t, id, "convert"); n != 1 {
		t.Errorf("counted %d while under way, want 1", n)
	}
	s.more = ""
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	close(release)
	if answer := <-got; answer.status != 500 || s.used(t, id, "convert") != 0 {
		t.Errorf("got %+v with %d counted, want 500 with none", answer, s.used(t, id, "convert"))
	}
}

// TestRequestOutlivesStore answers 503 to a request that is judged when
// its configuration and the store are gone: no panic, no 401.
func TestRequestOutlivesStore(t *testing.T) {
	s := start(t, setup{zone: calmZone(), upstream: code(200)})
	_, bearer := s.account(t, "small")
	old := app(t)
	if err := old.Cleanup(); err != nil {
		t.Fatal(err)
	}
	for _, request := range []struct{ method, target, body, header string }{
		{"GET", convert, "", "Authorization: Bearer " + bearer},
		{"GET", "/api/usage", "", "Authorization: Bearer " + bearer},
		{"POST", "/api/login", `{"email":"a@example.com","password":"x"}`, "Content-Type: application/json"},
	} {
		got := s.ask(t, request.method, request.target, request.body, request.header)
		if got.status != 503 || got.code() != "unavailable" || got.header.Get("Retry-After") != "5" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: got %+v", request.target, got)
		}
	}
	if got := s.get(t, convert, "junk"); got.status != 401 {
		t.Errorf("junk: got %d, want 401, which needs no store", got.status)
	}
	if n := s.upstream.seen(); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
	if err := old.Cleanup(); err != nil {
		t.Errorf("cleaning up again: %v", err)
	}
}

// TestReloadThatFails keeps the running configuration serving, and its
// counts.
func TestReloadThatFails(t *testing.T) {
	s := start(t, setup{zone: calmZone(), port: freePort(t)})
	id, bearer := s.account(t, "small")
	s.get(t, convert, bearer)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	running := s.setup
	for name, broken := range map[string]func(*setup){
		"mistake":             func(b *setup) { b.more = "plan x {\nnothing 1\n}" },
		"directory is a file": func(b *setup) { b.dir = "/dev/null/gate" },
		"no directory":        func(b *setup) { b.dir = "{env.TOLLGATE_TEST_NOT_SET}" },
		// The app tollgate may have been started by then, or not.
		"another app does not start": func(b *setup) {
			b.behind = fmt.Sprintf("respond x\n}\nhttp://:%d {\nbind 127.0.0.1", taken.Addr().(*net.TCPAddr).Port)
		},
	} {
		s.setup = running
		broken(&s.setup)
		if err := s.reload(); err == nil {
			t.Errorf("%s: the configuration was loaded", name)
		}
		if got := s.get(t, "/api/rates/EUR", bearer); got.status == 503 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if n := s.used(t, id, "convert"); n != 1 {
		t.Errorf("counted %d, want 1", n)
	}
}
