package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal/command"
)

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
