package protocol_test

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// growth is how much more memory Caddy may need for a large body.
const growth = 64 << 20

// large is the length of a large body: 1 GiB in long tests.
func large() int64 {
	if storetest.Long() {
		return 1 << 30
	}
	return 128 << 20
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// transfers are large bodies, up and down.
func transfers(t *testing.T) protocol {
	size := large()
	return protocol{
		endpoints: []endpoint{
			{name: "up", method: "POST", path: "/api/up", behind: serve(t, func(w http.ResponseWriter, r *http.Request) {
				n, err := io.CopyBuffer(io.Discard, onlyReader{r.Body}, make([]byte, 1<<20))
				if err != nil {
					t.Errorf("reading the body: %v", err)
				}
				io.WriteString(w, strconv.FormatInt(n, 10))
			})},
			{name: "down", method: "GET", path: "/api/down", behind: serve(t, func(w http.ResponseWriter, _ *http.Request) {
				part := make([]byte, 1<<20)
				for n := int64(0); n < size; n += int64(len(part)) {
					if _, err := w.Write(part); err != nil {
						t.Errorf("writing the body: %v", err)
						return
					}
				}
			})},
			{name: "told", method: "GET", path: "/api/told", block: "{\ncost answer json usage.total_tokens reserve 10\n}", behind: serve(t, func(w http.ResponseWriter, r *http.Request) {
				kind := r.URL.Query().Get("kind")
				told := tolds[kind]
				w.Header().Set("Content-Type", kind)
				io.WriteString(w, told.before)
				part := strings.Repeat(told.part, 1<<20/len(told.part))
				for n := int64(0); n < size; n += int64(len(part)) {
					if _, err := io.WriteString(w, part); err != nil {
						t.Errorf("writing the body: %v", err)
						return
					}
				}
				io.WriteString(w, told.after)
			})},
		},
		test: func(t *testing.T, s *site) {
			a := s.account(t, "large")
			before, _ := s.Memory()
			t.Run("up", func(t *testing.T) {
				response, text := a.call(t, s.plain(), "POST", "/api/up", io.LimitReader(zeros{}, size))
				if response.StatusCode != http.StatusOK || text != strconv.FormatInt(size, 10) {
					t.Errorf("got %d %s", response.StatusCode, text)
				}
			})
			t.Run("down", func(t *testing.T) {
				response := a.open(t.Context(), t, s.plain(), "GET", "/api/down", nil)
				n, err := io.CopyBuffer(io.Discard, onlyReader{response.Body}, make([]byte, 1<<20))
				if response.StatusCode != http.StatusOK || n != size || err != nil {
					t.Errorf("got %d with %d bytes (%v)", response.StatusCode, n, err)
				}
			})
			for kind := range tolds {
				t.Run(kind, func(t *testing.T) {
					response := a.open(t.Context(), t, s.plain(), "GET", "/api/told?kind="+url.QueryEscape(kind), nil)
					n, err := io.CopyBuffer(io.Discard, onlyReader{response.Body}, make([]byte, 1<<20))
					if response.StatusCode != http.StatusOK || n < size/2 || err != nil {
						t.Errorf("got %d with %d bytes (%v)", response.StatusCode, n, err)
					}
				})
			}
			now, peak := s.Memory()
			t.Logf("memory of Caddy in MiB: %d before, %d after, %d at most", before>>20, now>>20, peak>>20)
			if peak > before+growth {
				t.Errorf("the memory of Caddy grew from %d to %d bytes", before, peak)
			}
			a.expect(t, "up", 1)
			a.expect(t, "down", 1)
			a.ended(t, 2+len(tolds))
			a.expect(t, "told", 3*int64(len(tolds)))
		},
	}
}

// tolds are large answers that tell their cost at the end, by their type.
var tolds = map[string]struct{ before, part, after string }{
	"text/event-stream":    {"", "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}],\"usage\":null}\n\n", "data: {\"usage\":{\"total_tokens\":3}}\n\n"},
	"application/json":     {`{"content":"`, `a \"word\"`, `","usage":{"total_tokens":3}}`},
	"application/x-ndjson": {"", "{\"message\":{\"content\":\"word\"}}\n", "{\"usage\":{\"total_tokens\":3}}\n"},
}

// onlyReader hides the other methods: io.CopyBuffer uses its buffer.
type onlyReader struct{ io.Reader }
