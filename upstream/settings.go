package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/app"
)

// minSecret is the minimum length of the shared secret in characters. The
// gate has the same minimum.
const minSecret = 32

// settings are the values of a command's flags.
type settings struct {
	address    string
	control    string
	listen     string
	data       string
	timezone   string
	secretFile string
	signUp     bool
	history    string
	daily      string
}

// fromEnvironment declares a flag. Its default is an environment variable
// or, if that is empty, the fallback.
func fromEnvironment(c *cobra.Command, value *string, name, variable, fallback, usage string) {
	c.Flags().StringVar(value, name, cmp.Or(os.Getenv(variable), fallback), usage+" (environment: "+variable+")")
}

// withData declares the flag of commands that read or write data.
func (s *settings) withData(c *cobra.Command) {
	fromEnvironment(c, &s.data, "data", "TOLLGATE_DATA", "./data", "data `directory`")
}

// withGate declares the flags of commands that call the gate.
func (s *settings) withGate(c *cobra.Command) {
	s.withData(c)
	fromEnvironment(c, &s.control, "control", "TOLLGATE_CONTROL", "127.0.0.1:8081", "`address` of the gate's control listener")
	c.Flags().StringVar(&s.secretFile, "secret-file", "",
		"`file` whose first line is the secret that gate and upstream share\n(environment: TOLLGATE_SECRET holds the secret itself; default: the file \"secret\" in the data directory)")
}

// secret returns the secret that gate and upstream share: from the flag,
// else from the environment, else from the default file.
func (s *settings) secret() (string, error) {
	secret := os.Getenv("TOLLGATE_SECRET")
	if s.secretFile != "" || secret == "" {
		var err error
		if secret, err = readSecret(cmp.Or(s.secretFile, filepath.Join(s.data, "secret"))); err != nil {
			return "", err
		}
	}
	if len([]rune(secret)) < minSecret {
		return "", fmt.Errorf("the secret has less than %d characters", minSecret)
	}
	return secret, nil
}

func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no secret: set TOLLGATE_SECRET, or put it into %s", path)
	}
	if err != nil {
		return "", fmt.Errorf("reading secret: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Scan()
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("reading secret: %w", err)
	}
	return strings.TrimSpace(lines.Text()), nil
}

// options returns the options that need no gate.
func (s *settings) options(c *cobra.Command) app.Options {
	return app.Options{
		Address:      s.address,
		Timezone:     s.timezone,
		Directory:    filepath.Join(s.data, "upstream"),
		Database:     os.Getenv("TOLLGATE_DATABASE"),
		RatesHistory: unlessOff(s.history),
		RatesDaily:   unlessOff(s.daily),
		SignUp:       s.signUp,
		Logger:       slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil)),
	}
}

// optionsWithGate returns the options with a client of the control API.
func (s *settings) optionsWithGate(c *cobra.Command, secret string) (app.Options, error) {
	o := s.options(c)
	if _, _, err := net.SplitHostPort(s.control); err != nil {
		return o, misuse("invalid --control %q: want host:port", s.control)
	}
	var err error
	o.Control, err = client.New("http://"+s.control, secret)
	return o, err
}
