package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/misuse"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

func serveCommand() *cobra.Command {
	var s settings
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
		RunE: func(c *cobra.Command, _ []string) error { return s.serve(c) },
	}
	s.withData(c)
	controlListener.Flags(c)
	s.withRates(c, ", or none to leave out the currency API")
	fromEnvironment(c, &s.listen, "upstream", "TOLLGATE_UPSTREAM", "127.0.0.1:9000", "`address` to listen on")
	fromEnvironment(c, &s.address, "address", "TOLLGATE_ADDRESS", app.DefaultAddress, "public `URL` of the site; with https, session cookies are sent over TLS only")
	fromEnvironment(c, &s.timezone, "timezone", "TOLLGATE_TIMEZONE", "UTC", "IANA `zone` whose midnight resets the quotas")
	fromEnvironment(c, &s.signUp, "signup", "TOLLGATE_SIGNUP", "off", "let strangers create an account: off, on for the plan free, or another `plan` of the gate's configuration")
	c.Flag("signup").NoOptDefVal = "on"
	c.Flags().BoolVar(&s.noRates, "no-rates", false, "the same as --rates none: serve accounts and web pages without the currency API")
	fromEnvironment(c, &s.name, "name", "TOLLGATE_NAME", "", "`text` that the web pages call the product, up to 40 characters")
	fromEnvironment(c, &s.logo, "logo", "TOLLGATE_LOGO", "", "`file` of the product's logo: SVG, PNG, WebP or JPEG, up to 256 KiB")
	fromEnvironment(c, &s.contact, "contact", "TOLLGATE_CONTACT", "", "`URL` or e-mail address where people reach the operator")
	return c
}

func (s *settings) serve(c *cobra.Command) (err error) {
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for _, name := range []string{"name", "logo", "contact", "signup"} {
		if flag := c.Flag(name); flag.Changed && flag.Value.String() == "" {
			return misuse.Errorf("--%s has no value", name)
		}
	}
	if _, _, err := net.SplitHostPort(s.listen); err != nil {
		return &app.OptionError{Option: "upstream", Value: s.listen, Want: "host:port"}
	}
	options := s.options(c)
	if options.Control, err = controlListener.Connect(c); err != nil {
		return err
	}
	secret, err := sharedSecret(c)
	if err != nil {
		return err
	}
	check, err := app.CheckAssertions(secret, s.address, options.Control, options.Logger)
	if err != nil {
		return err
	}
	site := app.Site{
		Address: s.address, Timezone: s.timezone, SignUp: app.SignUpPlan(s.signUp), NoRates: s.noRates || s.rates == app.NoRates,
		Name: s.name, Logo: s.logo, Contact: s.contact, Check: check,
	}
	if err := site.Validate(); err != nil {
		return err
	}
	upstream, err := app.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upstream.Close()) }()
	handler, err := upstream.Handler(site)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	logger := options.Logger
	logger.Info("listening", "address", listener.Addr().String())
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	err = server.Serve(ctx, listener, handler, logger)
	logger.Info("stopped")
	return err
}
