package gate_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// left is an upstream that is unreachable, and whose client leaves meanwhile.
type left struct{ leave func() }

func (l left) ServeHTTP(http.ResponseWriter, *http.Request) error {
	l.leave()
	return errors.New("connection refused")
}

// TestRefundClientGone: a call is given back although its client has left. A
// store over a network refuses to work for a context that has ended.
func TestRefundClientGone(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	given := 0
	p.givingBack = func(ctx context.Context) {
		given++
		if err := ctx.Err(); err != nil {
			t.Errorf("the context of the refund: %v", err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, convert, nil)
	r.Header.Set("Authorization", p.bearer)
	// An error is for the server to answer.
	_ = p.gate.Serve(httptest.NewRecorder(), r, left{leave})
	if given != 1 || ctx.Err() == nil {
		t.Errorf("given back %d times, want once; gone: %v", given, ctx.Err())
	}
}
