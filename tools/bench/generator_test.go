package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestParseLoad(t *testing.T) {
	t.Parallel()
	const around = "Running 4s test @ http://127.0.0.1:1234\nLINE\nRequests/sec:  25000.00\n"
	for line, want := range map[string]load{ // the zero load for an error
		`{"requests":100,"duration":500000,"p99":5123,"refused":7,"broken":1}`: {Requests: 100, Duration: 500_000, P99: 5123, Refused: 7, Broken: 1},
		"":                               {},
		`{"requests":100000,"dur`:        {},
		`{"requests":100000,"p99":5123}`: {},
	} {
		got, err := parseLoad(strings.ReplaceAll(around, "LINE", line))
		if got != want || (err != nil) != (want == load{}) || err == nil && got.rate() != 200 {
			t.Errorf("%s: got %+v, %v, want %+v", line, got, err, want)
		}
	}
}

// Both load generators send the tokens in turn over all connections, their
// report agrees with the server, and unexpected answers are an error.
func TestLoadGenerators(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("wrk")
	need(t, err)
	for _, inGo := range []bool{false, true} {
		var mu sync.Mutex
		requests, clients, status := map[string]int{}, map[string]bool{}, http.StatusOK
		stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			requests[r.URL.Path+" "+r.Header.Get("Authorization")]++
			clients[r.RemoteAddr] = true
			w.WriteHeader(status)
		}))
		defer stub.Close()
		s := (&server{address: strings.TrimPrefix(stub.URL, "http://")}).with([]string{"one", "two", "three"})
		s.inGo = inGo
		l, err := s.calls(t.Context(), time.Second)
		if err != nil || l.Duration < 1e6 || l.P99 <= 0 {
			t.Fatalf("got %+v, %v", l, err)
		}
		mu.Lock()
		total := 0
		for _, token := range s.tokens {
			n := requests[callPath+" Bearer "+token]
			total += n
			if n < int(l.Requests)/3-connections {
				t.Errorf("token %s was sent %d times in %d requests", token, n, l.Requests)
			}
		}
		if len(requests) != 3 || len(clients) < connections || total < int(l.Requests) || total > int(l.Requests)+connections {
			t.Errorf("the server got %v over %d connections, the report is %+v", requests, len(clients), l)
		}
		status = http.StatusUnauthorized
		mu.Unlock()
		if _, err := s.calls(t.Context(), time.Second); err == nil {
			t.Errorf("in Go %t: refusals are no error", inGo)
		}
		s.refused = true
		if l, err := s.calls(t.Context(), time.Second); !inGo && (err != nil || l.Refused != l.Requests) {
			t.Errorf("got %+v, %v", l, err)
		}
	}
}
