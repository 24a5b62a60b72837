package protocol_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"testing"
)

// events are server-sent events. The service sends the next event when the
// client has confirmed the one before.
func events(t *testing.T) protocol {
	confirmed, gone := make(chan struct{}), make(chan struct{}, 1)
	stream := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 10 {
			sendEvent(w, i)
			select {
			case <-confirmed:
			case <-r.Context().Done():
				gone <- struct{}{}
				return
			}
		}
	})
	before := newService(t, nil)
	middle := newService(t, func(w http.ResponseWriter, _ *http.Request) { sendEvent(w, 0) })
	return protocol{
		endpoints: []endpoint{
			{name: "events", method: "GET", path: "/api/events", behind: stream},
			{name: "events_told", method: "GET", path: "/api/events/told", block: "{\ncost answer json n reserve 10\n}", behind: stream},
			{name: "events_before", method: "GET", path: "/api/events/before", behind: proxy(before.Server)},
			{name: "events_middle", method: "GET", path: "/api/events/middle", behind: proxy(middle.Server)},
		},
		test: func(t *testing.T, s *site) {
			for _, e := range []struct {
				name, path string
				cost       int64
			}{{"events", "/api/events", 1}, {"events_told", "/api/events/told", 9}} {
				t.Run(e.name, func(t *testing.T) {
					s.each(t, func(t *testing.T, c httpClient) {
						a := readEvents(t, s, c, e.path, confirmed)
						a.expect(t, e.name, e.cost)
					})
				})
			}
			t.Run("the client goes away", func(t *testing.T) {
				s.each(t, func(t *testing.T, c httpClient) { leaveEvents(t, s, c, gone) })
			})
			t.Run("the service dies before the answer", func(t *testing.T) {
				a := s.account(t, "large")
				go func() {
					<-before.arrived
					before.kill()
				}()
				response, text := a.call(t, s.plain(), "GET", "/api/events/before", nil)
				unreachable(t, response, text, "events_before")
				a.expect(t, "events_before", 0)
			})
			t.Run("the service dies in the middle", func(t *testing.T) {
				a := s.account(t, "large")
				response := a.open(t.Context(), t, s.plain(), "GET", "/api/events/middle", nil)
				lines := bufio.NewScanner(response.Body)
				hearEvent(t, lines, 0)
				<-middle.arrived
				middle.kill()
				if lines.Scan() || lines.Err() == nil {
					t.Errorf("got %q, want an error", lines.Text())
				}
				a.ended(t, 1)
				a.expect(t, "events_middle", 1)
			})
		},
	}
}

func sendEvent(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"n\":%d}\n\n", n)
	w.(http.Flusher).Flush()
}

func hearEvent(t *testing.T, lines *bufio.Scanner, n int) {
	t.Helper()
	if !lines.Scan() || lines.Text() != fmt.Sprintf(`data: {"n":%d}`, n) || !lines.Scan() {
		t.Fatalf("event %d: got %q (%v)", n, lines.Text(), lines.Err())
	}
}

// readEvents reads all events, also after the key is revoked.
func readEvents(t *testing.T, s *site, c httpClient, path string, confirmed chan<- struct{}) *account {
	a := s.account(t, "large")
	response := a.open(t.Context(), t, c, "GET", path, nil)
	lines := bufio.NewScanner(response.Body)
	for i := range 10 {
		hearEvent(t, lines, i)
		if i == 5 {
			a.revoke(t)
		}
		confirmed <- struct{}{}
	}
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("got %q, %v, want the end", lines.Text(), lines.Err())
	}
	a.ended(t, 1)
	if response, _ := a.call(t, c, "GET", path, nil); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %d with a revoked key", response.StatusCode)
	}
	return a
}

// leaveEvents closes the stream in the middle. The service sees it.
func leaveEvents(t *testing.T, s *site, c httpClient, gone <-chan struct{}) {
	a := s.account(t, "large")
	ctx, leave := context.WithCancel(t.Context())
	response := a.open(ctx, t, c, "GET", "/api/events", nil)
	hearEvent(t, bufio.NewScanner(response.Body), 0)
	leave()
	<-gone
	a.ended(t, 1)
	a.expect(t, "events", 1)
}
