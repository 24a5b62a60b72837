package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/upstream/app"
)

// minSecret is the minimum length of the shared secret in characters. The
// gate has the same minimum.
const minSecret = 32

// settings are the values of a command's flags.
type settings struct {
	app.Settings
	listen string
}

// declare declares the flags of the settings with these names, or of all.
func (s *settings) declare(c *cobra.Command, names ...string) {
	for _, o := range s.All() {
		switch {
		case o.Usage == "":
			*o.Value = os.Getenv(o.Variable())
		case len(names) == 0 || slices.Contains(names, o.Name):
			fromEnvironment(c, o.Value, o.Name, o.Variable(), o.Default, o.Usage)
		}
	}
}

// fromEnvironment declares a flag. Its default is an environment variable
// or, if that is empty, the fallback.
func fromEnvironment(c *cobra.Command, value *string, name, variable, fallback, usage string) {
	c.Flags().StringVar(value, name, cmp.Or(os.Getenv(variable), fallback), usage+" (environment: "+variable+")")
	c.Flag(name).Annotations = map[string][]string{environment: {variable}}
}

// environment is the annotation of a flag with its environment variable.
const environment = "environment"

// nameFlag makes an error about an option name the flag, or the environment
// variable if the flag is not set.
func nameFlag(c *cobra.Command, err error) error {
	var invalid *app.OptionError
	if !errors.As(err, &invalid) {
		return err
	}
	named := *invalid
	named.Option = "TOLLGATE_" + strings.ToUpper(invalid.Option)
	c.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(f.Annotations[environment], named.Option) {
			named.Option = "--" + f.Name
		}
	})
	return &named
}

// config returns the checked settings. A flag that is set to nothing is refused:
// it could come from an empty variable of a script.
func (s *settings) config(c *cobra.Command) (config app.Config, err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Annotations[environment] != nil && f.Value.String() == "" {
			err = misuse.Errorf("--%s has no value", f.Name)
		}
	})
	if err != nil {
		return app.Config{}, err
	}
	return s.Parse()
}

// newLogger returns the log of a command.
func newLogger(c *cobra.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
}

// controlListener is the gate of another process: the commands call its
// control listener with the secret.
var controlListener = Gate{Flags: listenerFlags, Connect: connectListener}

func listenerFlags(c *cobra.Command) {
	fromEnvironment(c, new(string), "control", "TOLLGATE_CONTROL", "127.0.0.1:8081", "`address` of the gate's control listener")
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
		return nil, &app.OptionError{Option: "control", Value: address, Want: "host:port or :port"}
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
