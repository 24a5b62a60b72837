package gate

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// outages are the logs of failures that can repeat with every request.
type outages struct {
	store    *outage.Log
	settle   *outage.Log
	above    *outage.Log
	unknown  *outage.Log
	attempts *outage.Log
	login    *outage.Log
	open     *outage.Log // outside endpoints
	rewrites *outage.Log
	// upstream has a log for each endpoint, by Endpoint.Index: several
	// upstreams can be behind one gate.
	upstream []*outage.Log
}

func newOutages(logger *zap.Logger, endpoints []*policy.Endpoint) *outages {
	log := outage.Logger(logger)
	of := func(log *slog.Logger, what string) *outage.Log { return outage.New(log, slog.LevelError, what) }
	o := &outages{
		store:    of(log, "asking the store"),
		settle:   of(log, "settling the cost of a call: what it took stays counted"),
		above:    outage.New(log, slog.LevelWarn, "a call cost more than its reservation, so a limit can be exceeded: reserve the highest cost of a call"),
		unknown:  outage.New(log, slog.LevelWarn, "an answer did not tell what the call cost, so the call cost its reservation"),
		attempts: of(log, "limiting login attempts"),
		login:    of(log, "calling the upstream to log in"),
		open:     of(log, "calling the upstream outside endpoints"),
		rewrites: outage.New(log, slog.LevelWarn, "a request was rewritten in front of the gate, from a closed path or a login to an open path: "+
			"mode enforce answers 404; write the directive tollgate before the rewrite, in a route block, or rewrite to an endpoint"),
	}
	for _, e := range endpoints {
		o.upstream = append(o.upstream, of(log.With("endpoint", e.Name), "calling the upstream"))
	}
	return o
}

// logRewritten logs a request that a handler in front of the gate has rewritten
// to a path that would be open. The operator may not expect that the gate
// checks both paths.
func (g *Gate) logRewritten(r *http.Request, d *decision) {
	if d.Written != "" && d.refusal == g.notFound && !g.Policy.Guard.Covers(r.URL.Path) {
		bounded := func(path string) string { return path[:min(len(path), maxLogged)] }
		g.outages.rewrites.Failed(slog.String("written", bounded(d.Written)), slog.String("rewritten", bounded(r.URL.Path)))
	}
}

// maxLogged is how much of a path a log line has, in bytes.
const maxLogged = 200

// errBrokenOff is why a proxy panics, if the client is not gone.
var errBrokenOff = errors.New("the answer broke off")

// unquoted returns an error of the next handler without what the service
// wrote: net/http quotes an answer that is no HTTP.
func unquoted(err error) error {
	if err == nil {
		return nil
	}
	text, _, quotes := strings.Cut(err.Error(), `"`)
	if !quotes {
		return err
	}
	return errors.New(text + "…")
}

// logFailure logs an error, unless it is that the client has left.
func logFailure(log *outage.Log, err error, attrs ...slog.Attr) {
	if errors.Is(err, context.Canceled) {
		return
	}
	log.Failed(append(attrs, slog.Any("error", err))...)
}
