package caddymodule_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// deadAddress refuses every connection. A port that was free a moment ago
// could be in use by another test by now; no test gets port 1.
const deadAddress = "127.0.0.1:1"

// TestRefund gives back calls without an answer, once, and by default
// no others. The first segment of the path is the case.
func TestRefund(t *testing.T) {
	service := func(w http.ResponseWriter, r *http.Request) {
		switch name := strings.Split(r.URL.Path, "/")[3]; name {
		case "hang-up":
			panic(http.ErrAbortHandler)
		case "hang":
			<-r.Context().Done()
		default:
			if status, err := strconv.Atoi(name); err == nil {
				w.WriteHeader(status)
			}
		}
	}
	errorsOf := ""
	for _, status := range []string{"500", "403", "429", "401", "404"} {
		errorsOf += fmt.Sprintf("\nhandle /api/convert/e%s/* {\nerror %[1]s\n}", status)
	}
	for _, rule := range []string{"unreachable", "server_errors", "never"} {
		t.Run(rule, func(t *testing.T) {
			s := start(t, setup{zone: calmZone(), more: "refund " + rule, upstream: service, behind: `
				handle /api/convert/dial/* {
					reverse_proxy 127.0.0.1:1
				}
				handle /api/convert/none/* {
					reverse_proxy {
						dynamic a localhost 1 {
							versions ipv6
						}
					}
				}
				handle /api/convert/hang/* {
					reverse_proxy UPSTREAM {
						transport http {
							response_header_timeout 50ms
						}
					}
				}
				handle /api/convert/proxy/* {
					reverse_proxy UPSTREAM {
						handle_response {
							error 403
						}
					}
				}
				handle /api/convert/silent/* {
					vars x y
				}
				handle {
					reverse_proxy UPSTREAM
				}` + errorsOf})
			always := map[string]int64{"unreachable": 2, "server_errors": 2, "never": 2}
			unless := map[string]int64{"unreachable": 1, "server_errors": 1, "never": 2}
			errors := map[string]int64{"unreachable": 2, "server_errors": 1, "never": 2}
			for _, c := range []struct {
				name   string
				status int
				code   string
				used   map[string]int64 // by refund rule
			}{
				{"dial", 502, "upstream_unreachable", unless}, {"none", 503, "upstream_unreachable", unless},
				{"hang-up", 502, "upstream_unreachable", unless}, {"hang", 504, "upstream_timeout", unless},
				{"502", 502, "", errors}, {"500", 500, "", errors}, {"404", 404, "", always}, {"429", 429, "", always},
				// Handlers of the operator: a failure, a firewall, a rate limit, a login and a page that is not there.
				{"e500", 500, "", errors}, {"e403", 403, "", unless}, {"e429", 429, "", unless}, {"e401", 401, "", always}, {"e404", 404, "", always},
				{"proxy", 403, "", always}, {"silent", 200, "", always},
			} {
				id, bearer := s.account(t, "small")
				s.get(t, convert, bearer) // one that stands, so that giving back twice would show
				got := s.get(t, "/api/convert/"+c.name+"/1/USD", bearer)
				if got.status != c.status || got.code() != c.code {
					t.Errorf("%s: got %+v, want %d %q", c.name, got, c.status, c.code)
				}
				used := s.used(t, id, "convert")
				if used != c.used[rule] {
					t.Errorf("%s: counted %d, want %d", c.name, used, c.used[rule])
				}
				// What the client is told has the call given back.
				if limit := got.header.Get("Ratelimit"); !strings.HasPrefix(limit, fmt.Sprintf(`"convert";r=%d;`, 5-used)) {
					t.Errorf("%s: got RateLimit %q with %d counted", c.name, limit, used)
				}
				if cc := got.header.Get("Cache-Control"); cc != "no-store" || got.header.Get("Vary") != "Authorization" {
					t.Errorf("%s: got Cache-Control %q, Vary %q", c.name, cc, got.header.Get("Vary"))
				}
				recent, err := s.store(t).Recent(t.Context(), id, time.Now())
				if err != nil || len(recent) != 2 || recent[0].Status != c.status {
					t.Errorf("%s: got recent calls %+v (%v)", c.name, recent, err)
				}
			}
		})
	}
}
