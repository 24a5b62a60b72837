package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/account"
	"github.com/caddy-tollgate/tollgate/upstream/account/database"
)

// minSecret is how many characters the shared secret has at least. The
// gate asks for the same.
const minSecret = 32

// settings are the values of the flags that a command has.
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

// fromEnvironment declares a flag whose default is an environment
// variable or, when that is empty, a fixed value.
func fromEnvironment(c *cobra.Command, value *string, name, variable, otherwise, usage string) {
	c.Flags().StringVar(value, name, cmp.Or(os.Getenv(variable), otherwise), usage+" (environment: "+variable+")")
}

// withData declares the flag of every command that keeps something.
func (s *settings) withData(c *cobra.Command) {
	fromEnvironment(c, &s.data, "data", "TOLLGATE_DATA", "./data", "data `directory`")
}

// withGate declares the flags of every command that asks the gate.
func (s *settings) withGate(c *cobra.Command) {
	s.withData(c)
	fromEnvironment(c, &s.control, "control", "TOLLGATE_CONTROL", "127.0.0.1:8081", "`address` of the gate's control listener")
	c.Flags().StringVar(&s.secretFile, "secret-file", "",
		"`file` whose first line is the secret that gate and upstream share\n(environment: TOLLGATE_SECRET holds the secret itself; default: the file \"secret\" in the data directory)")
}

// directory is where this program keeps its files.
func (s *settings) directory() string { return filepath.Join(s.data, "upstream") }

// secret returns what gate and upstream share. A flag goes before the
// environment, and the environment before the file that is there by
// default.
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

// gate returns a client of the control API.
func (s *settings) gate(secret string) (*client.Client, error) {
	if _, _, err := net.SplitHostPort(s.control); err != nil {
		return nil, misuse("--control is not of the form host:port")
	}
	return client.New("http://"+s.control, secret)
}

// open opens the account database.
func (s *settings) open(ctx context.Context) (*database.Store, error) {
	if address := os.Getenv("TOLLGATE_DATABASE"); address != "" {
		return database.OpenURL(ctx, address)
	}
	return database.OpenFile(ctx, s.directory())
}

// accounts returns the accounts over an open database.
func (s *settings) accounts(store *database.Store, secret string, logger *slog.Logger) (*account.Service, error) {
	gate, err := s.gate(secret)
	if err != nil {
		return nil, err
	}
	hasher := account.NewHasher(account.DefaultCost(), runtime.GOMAXPROCS(0))
	return account.NewService(store, gate, hasher, time.Now, logger), nil
}

// newLogger logs to standard error as text.
func newLogger(c *cobra.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
}
