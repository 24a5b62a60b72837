package protocol_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// cuts are answers that break off: the client leaves in the middle, or the
// service dies. The access log is the evidence of what they cost.
func cuts(t *testing.T) protocol {
	service := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/cut/cost":
			w.Header().Set("Tollgate-Cost", "3")
		case "/api/cut/trailer":
			w.Header().Set("Trailer", "Tollgate-Cost")
		}
		if strings.HasPrefix(r.URL.Path, "/api/cut/events") {
			sendEvent(w, 0)
		} else {
			fmt.Fprint(w, "the first half")
			w.(http.Flusher).Flush()
		}
		if r.URL.RawQuery == "service" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	})
	const costs = "{\ncost answer Tollgate-Cost reserve 10\n}"
	p := protocol{endpoints: []endpoint{
		{name: "cut_plain", method: "GET", path: "/api/cut/plain", behind: service},
		{name: "cut_events", method: "GET", path: "/api/cut/events", behind: service},
		{name: "cut_told", method: "GET", path: "/api/cut/events/told", block: "{\ncost answer json n reserve 10\n}", behind: service},
		{name: "cut_cost", method: "GET", path: "/api/cut/cost", block: costs, behind: service},
		{name: "cut_trailer", method: "GET", path: "/api/cut/trailer", block: costs, behind: service},
	}}
	p.test = func(t *testing.T, s *site) {
		s.each(t, func(t *testing.T, c httpClient) {
			a := s.account(t, "few")
			calls, want := 0, map[string]int64{"cut_plain": 2, "cut_events": 2, "cut_told": 20, "cut_cost": 6, "cut_trailer": 20}
			for _, e := range p.endpoints {
				for _, who := range []string{"client", "service"} {
					a.cut(t, c, e.path+"?"+who)
					calls++
					a.ended(t, calls)
				}
			}
			usage, err := a.control.Usage(t.Context(), a.id, 0)
			must(t, err)
			ids := map[string]bool{}
			for _, call := range usage.RecentCalls {
				ids[call.RequestID] = true
			}
			var lines []logLine
			eventually(t, "the calls are logged", func() bool {
				lines = nil
				for _, e := range p.endpoints {
					for _, who := range []string{"client", "service"} {
						for _, l := range s.logged(t, e.path+"?"+who) {
							if l.Call != nil && l.Call.Account == a.id {
								lines = append(lines, l)
							}
						}
					}
				}
				return len(lines) == calls
			})
			got := map[string]int64{}
			for _, l := range lines {
				got[l.Call.Endpoint] += l.Call.Cost
				if !ids[l.RequestID] || l.Call.Key != a.key || l.Call.Code != "" || l.Status != http.StatusOK || l.Duration != 0 {
					t.Errorf("logged %+v %+v, want the id of a recent call, 200 and the duration 0", l, l.Call)
				}
			}
			for endpoint, cost := range want {
				a.expect(t, endpoint, cost)
				if got[endpoint] != cost {
					t.Errorf("%s: the log has the cost %d, want %d", endpoint, got[endpoint], cost)
				}
			}
		})
	}
	return p
}

// cut makes a call whose answer breaks off.
func (a *account) cut(t *testing.T, c httpClient, target string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", c.base+target, http.NoBody)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+a.token)
	response, err := c.leaver(t).Do(r)
	if err == nil {
		defer response.Body.Close()
		_, err = response.Body.Read(make([]byte, 1))
	}
	if r.URL.RawQuery == "client" {
		must(t, err)
		return // the context ends
	}
	for err == nil { // a reset of HTTP/3 can be faster than what was sent before
		_, err = response.Body.Read(make([]byte, 512))
	}
}
