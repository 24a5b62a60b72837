package gate_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// Threat: a client makes the gate read another cost than the service tells, or
// leaves so that the service has worked for nothing. The reservation is 4.
func TestClientsThatPayLess(t *testing.T) {
	t.Parallel()
	const isJSON, isPlain = "application/json", "text/plain; charset=utf-8"
	write := func(contentType string, status int, pieces ...string) handlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) (err error) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			for _, piece := range pieces {
				_, failed := io.WriteString(w, piece)
				err = errors.Join(err, failed)
			}
			return err
		}
	}
	type test struct {
		next  func(leave func()) handlerFunc
		wants int64
	}
	always := func(next handlerFunc) func(func()) handlerFunc { return func(func()) handlerFunc { return next } }
	for name, test := range map[string]test{
		"the service repeats a text": {always(write(isPlain, 200, `{"cost":0}`)), 4},
		"no type":                    {always(write("", 200, `{"cost":0}`)), 4},
		"a problem document":         {always(write("application/problem+json", 400, `{"cost":1}`)), 1},
		"a part of the answer": {always(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Range", "bytes 5-14/100")
			return write(isJSON, 206, `{"cost":0}`)(w, r)
		}), 4},
		"a range that is not there": {always(write("", 416)), 4},
		"a condition that fails":    {always(write("", 412)), 4},
		"leaves before an error": {func(leave func()) handlerFunc {
			return func(w http.ResponseWriter, r *http.Request) error {
				leave()
				return write(isJSON, 500)(w, r)
			}
		}, 4},
		"leaves after an error": {func(leave func()) handlerFunc {
			return func(w http.ResponseWriter, r *http.Request) error {
				defer leave()
				return write(isJSON, 400)(w, r)
			}
		}, 0},
		"leaves, and the service does not notice": {func(leave func()) handlerFunc {
			return func(w http.ResponseWriter, r *http.Request) error {
				defer leave()
				return write(isJSON, 200, `{"cost":1,`)(w, r)
			}
		}, 4},
		"leaves before it gets the cost": {func(leave func()) handlerFunc {
			return func(w http.ResponseWriter, r *http.Request) error {
				leave()
				_ = write(isJSON, 200, `{"cost":9,"more":1}`)(w, r)
				panic(http.ErrAbortHandler)
			}
		}, 10},
		"cut off within a number": {always(func(w http.ResponseWriter, r *http.Request) error {
			_ = write(isJSON, 200, `{"more":0,"cost":1`)(w, r)
			panic(http.ErrAbortHandler)
		}), 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, bearer := reserving(t, func(c *policy.Config) {
				c.Endpoints[1].CostAnswer = &policy.CostAnswerConfig{Members: []string{"cost", "more"}, Reserve: 4}
			})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			w.next = test.next(leave)
			r := marked(httptest.NewRequest(http.MethodGet, rates, strings.NewReader("")).WithContext(ctx))
			r.Header.Set("Authorization", "Bearer "+bearer)
			func() {
				defer func() { _ = recover() }()
				_ = w.gate.Serve(&leaving{httptest.NewRecorder(), ctx}, r, w.next)
			}()
			w.gate.Wait()
			if used := w.used(t, "acc_1", "rates", noon); used != test.wants {
				t.Errorf("counted %d, want %d", used, test.wants)
			}
		})
	}
}

// leaving is the answer of a client that leaves when the context ends.
type leaving struct {
	http.ResponseWriter
	ctx context.Context
}

func (l *leaving) Write(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	return l.ResponseWriter.Write(p)
}
