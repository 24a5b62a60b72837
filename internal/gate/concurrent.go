package gate

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// A call with limits of calls at once runs from its admission until the handler
// behind the gate returns: a stream and a connection with another protocol hold it.
// These limits are the last of the call.

// limitsOfPeriods returns how many of the limits have a period: the others are of
// calls at once.
func (c *Call) limitsOfPeriods() int {
	n := len(c.limits)
	for n > 0 && c.limits[n-1].Period == store.Concurrent {
		n--
	}
	return n
}

// enter makes the call, or all calls of its batch, some of those that run, unless one
// of the last limits has no room for them or peek is set. rooms are those of these
// limits.
func (c *Call) enter(rooms []store.Room, peek bool) (entered bool, err error) {
	if len(rooms) == 0 {
		return true, nil
	}
	limits := c.limits[c.limitsOfPeriods():]
	lists, most := make([]string, len(limits)), make([]int64, len(limits))
	for i, l := range limits {
		lists[i], most[i] = c.endpoint.List(l), l.Max
	}
	var running []int64
	own := max(1, c.mark.requests)
	entered = true
	if peek {
		running, err = c.store.Running(c.request.Context(), c.grant.Account, lists)
	} else {
		running, c.mark.leave, err = c.store.Enter(c.request.Context(), c.grant.Account, lists, most, own)
		entered = c.mark.leave != nil
	}
	for i, n := range running {
		rooms[i] = limits[i].RoomAfter(n)
		entered = entered && (!peek || n+own <= most[i])
	}
	return entered, err
}

// leave ends a call that runs. A client that then makes another call finds its
// room, unless the store hangs: the answer does not wait for it long.
func (g *Gate) leave(leave func()) {
	g.settle(true, func(tried func()) { leave(); tried() })
}

// ending is the ResponseWriter of a call that runs. If the length of the answer is
// known, the call ends before its last byte: with that, the client can make another.
type ending struct {
	http.ResponseWriter
	end  func()
	rest int64 // of the body, if its length is known
}

func (g *Gate) newEnding(w http.ResponseWriter, mark *Mark) *ending {
	leave := mark.leave
	mark.leave = nil
	return &ending{ResponseWriter: w, end: sync.OnceFunc(func() { g.leave(leave) })}
}

// WriteHeader implements http.ResponseWriter.
func (w *ending) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.rest, _ = strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *ending) Write(p []byte) (int, error) {
	if n := int64(len(p)); n > 0 {
		if w.rest -= n; w.rest == 0 {
			w.end()
		}
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController the writer below.
func (w *ending) Unwrap() http.ResponseWriter { return w.ResponseWriter }
