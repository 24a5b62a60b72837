package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestParseLoad(t *testing.T) {
	t.Parallel()
	const around = "Running 4s test @ http://127.0.0.1:1234\n  1 threads and 64 connections\n%sRequests/sec:  25000.00\n"
	for name, test := range map[string]struct {
		line string
		want load // the zero load for an error
	}{
		"all members": {
			`{"requests":100000,"duration":4000000,"p50":2123,"p99":5123,"refused":7,"broken":1,"latency":[1,2,3,4,5,6,7,8]}` + "\n",
			load{Requests: 100000, Duration: 4000000, P50: 2123, P99: 5123, Refused: 7, Broken: 1, Latency: [8]int64{1, 2, 3, 4, 5, 6, 7, 8}},
		},
		"no line":     {"", load{}},
		"truncated":   {`{"requests":100000,"dur` + "\n", load{}},
		"no duration": {`{"requests":100000,"p99":5123}` + "\n", load{}},
		"a string":    {`{"requests":"many","duration":1}` + "\n", load{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseLoad(fmt.Sprintf(around, test.line))
			if got != test.want || (err != nil) != (test.want == load{}) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
	if got := (load{Requests: 100, Duration: 500_000}).rate(); got != 200 {
		t.Errorf("100 requests in half a second: got %v per second, want 200", got)
	}
}

// wrk sends the tokens in turn, and its report agrees with the server.
func TestGenerator(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("wrk"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("wrk is not installed")
	}
	var mu sync.Mutex
	requests := map[string]int{}
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests[r.URL.Path+" "+r.Header.Get("Authorization")]++
		w.WriteHeader(status)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	g, err := newGenerator(t.TempDir(), []string{"one", "two", "three"}, false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.run(t.Context(), address, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(l.Latency[:]) || l.Latency[0] <= 0 || l.Latency[2] != l.P50 {
		t.Errorf("got the latency %v with the median %d", l.Latency, l.P50)
	}
	mu.Lock()
	total := 0
	for _, token := range []string{"one", "two", "three"} {
		n := requests[callPath+" Bearer "+token]
		total += n
		if n < int(l.Requests)/3-connections {
			t.Errorf("token %s was sent %d times in %d requests", token, n, l.Requests)
		}
	}
	if len(requests) != 3 || total < int(l.Requests) || total > int(l.Requests)+connections {
		t.Errorf("the server got %v, wrk reports %d", requests, l.Requests)
	}
	status = http.StatusUnauthorized
	mu.Unlock()
	if _, err := g.run(t.Context(), address, time.Second); err == nil {
		t.Error("run accepts refusals, want an error")
	}
	g.refused = true
	if l, err := g.run(t.Context(), address, time.Second); err != nil || l.Refused != l.Requests {
		t.Errorf("got %+v, %v", l, err)
	}
}
