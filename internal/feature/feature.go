// Package feature lists the capabilities of the gate beside its core. Each is a
// folder, with what serves it, its commands and its tests. To leave one out, remove
// its folder, its lines here, and what the compiler then finds.
package feature

import (
	"log/slog"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/feature/audit"
	"github.com/caddy-tollgate/tollgate/internal/feature/backup"
	"github.com/caddy-tollgate/tollgate/internal/feature/bill"
	"github.com/caddy-tollgate/tollgate/internal/feature/check"
	"github.com/caddy-tollgate/tollgate/internal/feature/declare"
	"github.com/caddy-tollgate/tollgate/internal/feature/enrol"
	"github.com/caddy-tollgate/tollgate/internal/feature/explain"
	"github.com/caddy-tollgate/tollgate/internal/feature/introspect"
	"github.com/caddy-tollgate/tollgate/internal/feature/portal"
	"github.com/caddy-tollgate/tollgate/internal/feature/refused"
	"github.com/caddy-tollgate/tollgate/internal/feature/report"
	"github.com/caddy-tollgate/tollgate/internal/feature/take"
	"github.com/caddy-tollgate/tollgate/internal/feature/topup"
)

// Gate is what the capabilities ask of a gate.
type Gate interface {
	admin.Backend
	explain.Gate
	introspect.Gate
	portal.Linker
	refused.Flusher
	report.Watched
	take.Gate
}

// Handler returns the handler of the control API with all operations.
func Handler(of Gate, logger *slog.Logger) http.Handler {
	s := admin.NewServer(of, logger)
	audit.Serve(s)
	bill.Serve(s)
	check.Serve(s)
	enrol.Serve(s)
	explain.Serve(s, of)
	introspect.Serve(s)
	portal.Serve(s, of)
	refused.Serve(s, of)
	report.Serve(s, of)
	take.Serve(s)
	topup.Serve(s)
	return s.Handler()
}

// Listener returns the handler of a listener for applications: next, and what
// opens with another secret.
func Listener(next http.Handler, of Gate, logger *slog.Logger) http.Handler {
	return introspect.Handler(take.Handler(next, of, logger), of, logger)
}

// Commands adds the commands of the capabilities that need a running gate only.
func Commands(t *cli.Tool, parent *cobra.Command) {
	audit.Commands(t, parent)
	bill.Commands(t, parent)
	declare.Commands(t, parent)
	enrol.Commands(t, parent)
	explain.Commands(t, parent)
	portal.Commands(t, parent)
	refused.Commands(t, parent)
	report.Commands(t, parent)
	topup.Commands(t, parent)
}

// FileCommands returns a function that adds those that also read a configuration
// file: find returns its store, and read what the gate makes of it.
func FileCommands(find backup.FindTarget, read check.Read) func(t *cli.Tool, parent *cobra.Command) {
	return func(t *cli.Tool, parent *cobra.Command) {
		backup.Commands(t, parent, find)
		check.Commands(t, parent, read)
	}
}
