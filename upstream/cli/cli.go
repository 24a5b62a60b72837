// Package cli is the command line of the upstream: serve, and the commands of
// the portal and of the currency API.
//
// Run is the whole program bin/upstream. Add adds the commands that
// administer accounts and rates to another program.
//
// Results go to standard output, errors and logs to standard error.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	currency "github.com/caddy-tollgate/tollgate/upstream/currency/command"
	"github.com/caddy-tollgate/tollgate/upstream/currency/feed"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal/command"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

const about = `upstream serves the currency API behind a Tollgate gate.

Settings come from flags or from the environment:

%s
A secret is never a flag: every user of the machine can read flags. Without
TOLLGATE_SECRET the program reads the file "secret" in the data directory.`

// listSettings lists the settings that come from the environment: those with a
// flag of the command, and two without.
func listSettings(c *cobra.Command) string {
	var list strings.Builder
	line := func(variable, flag, usage string) { fmt.Fprintf(&list, "  %-17s  %-13s  %s\n", variable, flag, usage) }
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if variable := option.Variable(f); variable != "" {
			_, usage := pflag.UnquoteUsage(f)
			line(variable, "--"+f.Name, strings.TrimSuffix(usage, " (environment: "+variable+")"))
		}
	})
	line("TOLLGATE_SECRET", "--secret-file", "secret that gate and upstream share, or the file that holds it")
	line("TOLLGATE_DATABASE", "", "PostgreSQL URL; SQLite when empty")
	return list.String()
}

// Add adds the commands account, backup and rates to a command of another program.
func Add(c *cobra.Command, gate command.Gate) {
	c.Args, c.RunE = cobra.ArbitraryArgs, misuse.Command
	c.AddCommand(command.Commands(gate)...)
	c.AddCommand(currency.Rates())
}

// Run runs bin/upstream and returns its exit status: 0 after success, 1 after
// a failure, 2 for an invalid command line.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:                   name + " COMMAND",
		Short:                 "The currency API behind a Tollgate gate",
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(misuse.Flag)
	serve := serveCommand()
	root.Long = fmt.Sprintf(about, listSettings(serve))
	root.AddCommand(serve, versionCommand(), terminal.Manpage())
	root.Version = api.Version()
	root.SetVersionTemplate("{{.Version}}\n")
	Add(root, controlListener)
	misuse.CheckFlags(root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := false // an error before that is an invalid command line
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	failed, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "upstream: %v\n", option.NameFlag(failed, err))
	if started && !misuse.Is(err) {
		return 1
	}
	fmt.Fprintf(stderr, "\nUsage: %s\n\nRun \"%s --help\" for help.\n", failed.UseLine(), failed.CommandPath())
	return 2
}

// name is the name of the program. A build of a package sets it with -ldflags -X.
var name = "upstream"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), api.Version())
			return err
		},
	}
}

func serveCommand() *cobra.Command {
	var s app.Settings
	var listen string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the currency API and the web pages to the gate",
		Long: `Serve the currency API and the web pages to the gate, until SIGINT or
SIGTERM.

With --no-rates or --rates none it serves accounts and web pages only, for another API behind
the gate.

You may start it before the gate. It calls the gate when a person logs in or
opens a page.`,
		Args: misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error { return serve(c, s, listen) },
	}
	for _, o := range s.All() {
		if *o.Value = os.Getenv(o.Variable()); o.Usage != "" {
			o.Declare(c)
		}
	}
	controlListener.Flags(c)
	option.Declare(c, &listen, "upstream", "TOLLGATE_UPSTREAM", "127.0.0.1:9000", "`address` to listen on")
	c.Flag("signup").NoOptDefVal = "on"
	c.Flags().Bool("no-rates", false, "the same as --rates none: serve accounts and web pages without the currency API")
	return c
}

func serve(c *cobra.Command, s app.Settings, listen string) (err error) {
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if c.Flag("no-rates").Value.String() == "true" {
		s.Rates = feed.None
	}
	if err := option.Check(c); err != nil {
		return err
	}
	config, err := s.Parse()
	if err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return &option.Error{Option: "upstream", Value: listen, Want: "host:port"}
	}
	control, err := controlListener.Connect(c)
	if err != nil {
		return err
	}
	secret, err := sharedSecret(c)
	if err != nil {
		return err
	}
	logger := option.Logger(c)
	check, err := app.CheckAssertions(secret, s.Address, control, logger)
	if err != nil {
		return err
	}
	upstream, err := app.Open(ctx, config, control, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upstream.Close()) }()
	handler, err := upstream.Handler(config, check)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	logger.Info("listening", "address", listener.Addr().String())
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	err = server.Serve(ctx, listener, handler, logger)
	logger.Info("stopped")
	return err
}

// minSecret is the minimum length of the shared secret in characters. The
// gate has the same minimum.
const minSecret = 32

// controlListener is the gate of another process: the commands call its
// control listener with the secret.
var controlListener = command.Gate{Flags: listenerFlags, Connect: connectListener}

func listenerFlags(c *cobra.Command) {
	option.Declare(c, new(string), "control", "TOLLGATE_CONTROL", "127.0.0.1:8081", "`address` of the gate's control listener")
	c.Flags().String("secret-file", "",
		"`file` whose first line is the secret that gate and upstream share\n(environment: TOLLGATE_SECRET holds the secret itself; default: the file \"secret\" in the data directory)")
}

func connectListener(c *cobra.Command) (*client.Client, error) {
	secret, err := sharedSecret(c)
	if err != nil {
		return nil, err
	}
	address := c.Flag("control").Value.String()
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, &option.Error{Option: "control", Value: address, Want: "host:port or :port"}
	}
	return client.New("http://"+address, secret)
}

// sharedSecret returns the secret that gate and upstream share: from the
// flag, else from the environment, else from the default file.
func sharedSecret(c *cobra.Command) (string, error) {
	file, secret := c.Flag("secret-file").Value.String(), os.Getenv("TOLLGATE_SECRET")
	if file != "" || secret == "" {
		var err error
		if secret, err = readSecret(cmp.Or(file, filepath.Join(c.Flag("data").Value.String(), "secret"))); err != nil {
			return "", err
		}
	}
	if len([]rune(secret)) < minSecret {
		return "", fmt.Errorf("the secret has less than %d characters: set TOLLGATE_SECRET, or put a longer one into its file, such as that of \"openssl rand -hex 32\"", minSecret)
	}
	return secret, nil
}

func readSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no secret: set TOLLGATE_SECRET, or put it into %s", path)
	}
	if err != nil {
		return "", fmt.Errorf("reading secret: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first), nil
}
