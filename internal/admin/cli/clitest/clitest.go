// Package clitest runs the operator's commands in the process of a test,
// against a gate in memory. Scripts say what the commands print.
package clitest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// Shell runs commands against a gate of its own.
type Shell struct {
	*controltest.Gate
	base   string
	status int // of the last command

	mu   sync.Mutex
	urls []string
}

// New starts a gate on the loopback interface, until the test ends.
func New(t testing.TB) *Shell {
	t.Helper()
	s := &Shell{Gate: controltest.New(t)}
	handler := s.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.urls = append(s.urls, r.URL.String()+"\n")
		s.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.base = server.URL
	return s
}

// URLs returns the URLs that commands have asked for, one a line.
func (s *Shell) URLs() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.urls, "")
}

// Run runs a command with that standard input.
func (s *Shell) Run(ctx context.Context, input string, args ...string) (stdout, stderr string, err error) {
	return RunAt(ctx, s.base, input, args...)
}

// RunAt runs a command against the control API at a URL.
func RunAt(ctx context.Context, base, input string, args ...string) (stdout, stderr string, err error) {
	root := &cobra.Command{Use: "tollgate", SilenceUsage: true}
	root.SetFlagErrorFunc(misuse.Flag)
	root.CompletionOptions.DisableDefaultCmd = true // as Caddy does
	cli.Add(root, func(address string) (*client.Client, error) {
		if address != "" {
			return nil, errors.New("no such address: " + address)
		}
		return client.New(base, controltest.Secret)
	}, feature.Commands)
	var out, complaints bytes.Buffer
	root.SetIn(strings.NewReader(input))
	root.SetOut(&out)
	root.SetErr(&complaints)
	root.SetArgs(args)
	err = root.ExecuteContext(ctx)
	return out.String(), complaints.String(), err
}
