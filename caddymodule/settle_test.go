package caddymodule_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/gzip"
)

// priced are options with an endpoint whose answers tell what a call costs.
const priced = `
		guard /api/
		endpoint rows GET /api/rows/{by}/{how} {
			cost answer Tollgate-Cost reserve 10
			upgrade
		}
		plan free
		plan small {
			rows 1000
			rows 2000 month
		}
`

// tellCost is a service. The last segment of the path says how it tells the cost
// of a call, which is 3.
func tellCost(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	how := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch how {
	case "header", "cut-header", "endless-header", "304", "500":
		h.Set("Tollgate-Cost", "3")
	case "two-headers":
		h["Tollgate-Cost"] = []string{"3", "3"}
	case "trailer", "cut-trailer", "endless-trailer", "late-500":
		h.Set("Trailer", "Tollgate-Cost")
	case "grpc":
		h.Set("Content-Type", "application/grpc")
		h.Set("Trailer", "Grpc-Status, Grpc-Message")
		h.Add("Trailer", "Tollgate-Cost")
	case "upgrade":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTollgate-Cost: 3\r\n\r\n")
		return
	case "hang-up":
		panic(http.ErrAbortHandler)
	}
	if status, err := strconv.Atoi(how); err == nil {
		w.WriteHeader(status)
		return
	}
	if how == "late-500" {
		w.WriteHeader(http.StatusInternalServerError)
	}
	// Longer than what encode and a proxy keep back.
	_, _ = io.WriteString(w, strings.Repeat("row ", 4096)) // HEAD has no body
	_ = http.NewResponseController(w).Flush()
	switch how {
	case "cut-header", "cut-trailer":
		panic(http.ErrAbortHandler)
	case "endless-header", "endless-trailer":
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "row "); err != nil {
				return
			}
		}
		h.Set("Tollgate-Cost", "3")
	case "trailer", "late-500", "grpc":
		h.Set("Tollgate-Cost", "3")
		h.Set("Grpc-Status", "0")
	case "unannounced":
		h.Set(http.TrailerPrefix+"Tollgate-Cost", "3")
	}
}

// startTelling starts the service for HTTP/1.1 and h2c, until the test ends.
func startTelling(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(tellCost), Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return listener.Addr().String()
}

// TestCostOfAnswers: the cost that a service tells through Caddy's proxy and
// other handlers is counted once. The header goes no further. A reload waits for
// settlements, so the counts are exact after it. Error routes change nothing.
func TestCostOfAnswers(t *testing.T) {
	for name, more := range map[string]string{"json": "", "pass": "errors pass"} {
		t.Run(name, func(t *testing.T) { costOfAnswers(t, more) })
	}
}

func costOfAnswers(t *testing.T, more string) {
	const reserved = 10
	behind := `
		handle_errors {
			respond {err.status_code} {err.status_code}
		}
		handle /api/rows/h1/* {
			reverse_proxy SERVICE
		}
		handle /api/rows/h2c/* {
			reverse_proxy h2c://SERVICE
		}
		handle /api/rows/dead/* {
			reverse_proxy DEAD
		}
		handle /api/rows/retry/* {
			reverse_proxy DEAD SERVICE DEAD SERVICE {
				lb_policy round_robin
				lb_retries 3
			}
		}
		handle /api/rows/encode/* {
			encode gzip
			reverse_proxy SERVICE
		}
		handle /api/rows/replaced/* {
			reverse_proxy SERVICE {
				handle_response {
					respond replaced
				}
			}
		}
		handle /api/rows/copied/* {
			reverse_proxy SERVICE {
				handle_response {
					copy_response_headers {
						include Tollgate-Cost
					}
					respond copied
				}
			}
		}
		handle /api/rows/failed/* {
			reverse_proxy SERVICE {
				handle_response {
					error 403
				}
			}
		}
		handle /api/rows/directive/header {
			header Tollgate-Cost 4
			respond directive
		}
		handle /api/rows/directive/* {
			header >Tollgate-Cost 4
			reverse_proxy SERVICE
		}
		handle /api/rows/silent/* {
			vars x y
		}`
	behind = strings.NewReplacer("SERVICE", startTelling(t), "DEAD", deadAddress).Replace(behind)
	s := start(t, setup{zone: calmZone(), port: freePort(t), gate: priced, more: more, behind: behind})
	type called struct {
		name, account string
		want          int64
	}
	var calls []called
	for name, c := range map[string]struct {
		status int // 0: the answer is cut off
		cost   int64
	}{
		"GET h1/header": {200, 3}, "GET h1/trailer": {200, 3}, "GET h1/unannounced": {200, reserved}, "GET h1/nothing": {200, reserved},
		"GET h1/two-headers": {200, reserved}, "GET h1/304": {304, 3}, "GET h1/500": {500, 3}, "GET h1/late-500": {500, 3},
		"HEAD h1/header": {200, 3}, "HEAD h1/trailer": {200, reserved}, "GET h1/grpc": {200, 3},
		"GET h1/cut-header": {0, 3}, "GET h1/cut-trailer": {0, reserved}, "GET h1/hang-up": {502, 0},
		"GET h2c/header": {200, 3}, "GET h2c/trailer": {200, 3}, "GET h2c/unannounced": {200, reserved}, "GET h2c/grpc": {200, 3},
		"GET h2c/cut-header": {0, 3}, "GET h2c/cut-trailer": {0, reserved}, "GET h2c/hang-up": {502, 0}, "HEAD h2c/trailer": {200, reserved},
		"GET dead/header": {502, 0}, "GET retry/header": {200, 3}, "GET retry/trailer": {200, 3}, "GET retry/hang-up": {502, 0},
		"GET encode/header": {200, 3}, "GET encode/trailer": {200, 3}, "GET encode/cut-trailer": {0, reserved},
		"GET replaced/header": {200, reserved}, "GET copied/header": {200, 3}, "GET failed/header": {403, reserved},
		"GET directive/header": {200, 4}, "GET directive/trailer": {200, 4}, "GET silent/header": {200, reserved},
		"LEAVE h1/endless-header": {200, 3}, "LEAVE h1/endless-trailer": {200, reserved}, "LEAVE h2c/endless-trailer": {200, reserved},
		"UPGRADE h1/upgrade": {101, 3}, "UPGRADE h1/header": {200, 3},
	} {
		account, bearer := s.account(t, "small", "rows")
		method, target, _ := strings.Cut(name, " ")
		calls = append(calls, called{name, account, c.cost})
		switch method {
		case "UPGRADE":
			s.upgrade(t, "/api/rows/"+target, bearer, c.status)
			continue
		case "LEAVE":
			s.leave(t, "/api/rows/"+target, bearer)
			continue
		}
		got, err := s.try(t.Context(), method, "/api/rows/"+target, "", "Authorization: Bearer "+bearer,
			"Accept-Encoding: gzip", "Tollgate-Cost: 1", "TE: trailers")
		if (err == nil) != (c.status > 0) || err == nil && got.status != c.status {
			t.Errorf("%s: got %d (%v), want %d", name, got.status, err, c.status)
		}
		if got.header.Get("Tollgate-Cost") != "" || strings.Contains(got.header.Get("Trailer"), "Cost") {
			t.Errorf("%s: the client gets %v", name, got.header)
		}
		if left := 1000 - c.cost; !strings.HasSuffix(target, "trailer") && !strings.HasSuffix(target, "grpc") && target != "h1/late-500" &&
			c.status > 0 && !strings.HasPrefix(got.header.Get("Ratelimit"), fmt.Sprintf(`"rows";r=%d;`, left)) {
			t.Errorf("%s: got RateLimit %s, want %d left", name, got.header.Get("Ratelimit"), left)
		}
	}
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if got := s.used(t, c.account, "rows"); got != c.want {
			t.Errorf("%s: counted %d, want %d", c.name, got, c.want)
		}
	}
}

// leave closes the connection when the answer has begun.
func (s *site) leave(t *testing.T, target, bearer string) {
	t.Helper()
	conn := s.open(t, "GET "+target+" HTTP/1.1\r\nHost: gate.test\r\nAuthorization: Bearer "+bearer+"\r\n\r\n")
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); statusOf(line) != "200" {
		t.Errorf("%s: got %s (%v)", target, line, err)
	}
}

// upgrade asks for another protocol, and expects a status.
func (s *site) upgrade(t *testing.T, target, bearer string, status int) {
	t.Helper()
	conn := s.open(t, "GET "+target+" HTTP/1.1\r\nHost: gate.test\r\nAuthorization: Bearer "+bearer+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	defer conn.Close()
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || got.StatusCode != status || got.Header.Get("Tollgate-Cost") != "" {
		t.Errorf("upgrade of %s: got %+v (%v)", target, got, err)
		return
	}
	got.Body.Close()
}

// TestCleanupWaitsForSettlements: a configuration that ends waits until the calls
// that it answered are settled, before the store is closed.
func TestCleanupWaitsForSettlements(t *testing.T) {
	for name, stops := range map[string]bool{"reload": false, "stop": true} {
		t.Run(name, func(t *testing.T) {
			const calls, reserved, cost = 5, 10, 3
			proceed := make(chan struct{})
			held := newTestStore(t, nil)
			held.settle = func() { <-proceed }
			s := newSite(setup{zone: calmZone(), port: freePort(t), gate: priced, behind: "reverse_proxy " + startTelling(t)}, held.dir)
			t.Cleanup(s.upstream.server.Close)
			load := func() error {
				defer s.client.CloseIdleConnections()
				text, err := adapt(s.text(""))
				if err != nil {
					return err
				}
				badger := fmt.Sprintf(`{"directory":%q,"module":"badger"}`, held.dir)
				return caddy.Load([]byte(strings.Replace(string(text), badger, fmt.Sprintf(`{"module":"test","name":%q}`, t.Name()), 1)), true)
			}
			if err := load(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { stop(t) })
			account, bearer := s.account(t, "small", "rows")
			for range calls {
				if got := s.get(t, "/api/rows/h1/header", bearer); got.status != http.StatusOK {
					t.Fatalf("got %+v", got)
				}
			}
			if got := s.used(t, account, "rows"); got != calls*reserved {
				t.Errorf("counted %d before the settlements, want %d", got, calls*reserved)
			}
			ended := make(chan error, 1)
			go func() {
				if stops {
					ended <- caddy.Stop()
				} else {
					ended <- load()
				}
			}()
			select {
			case err := <-ended:
				t.Fatalf("the configuration ended before its settlements (%v)", err)
			case <-time.After(200 * time.Millisecond): // it would have ended
			}
			close(proceed)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if stops { // read what is on the disk
				if err := load(); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.used(t, account, "rows"); got != calls*cost {
				t.Errorf("counted %d, want %d", got, calls*cost)
			}
		})
	}
}
