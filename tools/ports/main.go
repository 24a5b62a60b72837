// Command ports fails if a setting of the environment is invalid, so that this is
// known before a build, or if a program already listens on one of its arguments.
// Each is the name of a setting, "=" and its value: addresses with commas
// between them, those of TOLLGATE_ADDRESS as in a Caddyfile. Caddy would share
// a port with another Caddy without an error, and the kernel would distribute
// the connections.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/option"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(arguments []string, stderr io.Writer) (status int) {
	var s app.Settings
	for _, setting := range s.All() {
		*setting.Value = os.Getenv(setting.Variable())
	}
	if _, err := s.Parse(); err != nil {
		if invalid, ok := errors.AsType[*option.Error](err); ok {
			invalid.Option = "TOLLGATE_" + strings.ToUpper(invalid.Option)
		}
		fmt.Fprintln(stderr, err)
		status = 1
	}
	for _, argument := range arguments {
		name, addresses, _ := strings.Cut(argument, "=")
		for address := range strings.SplitSeq(addresses, ",") {
			address = strings.TrimSpace(address)
			listens := address
			if name == "TOLLGATE_ADDRESS" {
				listens = listener(address)
			}
			if isTaken(listens) {
				fmt.Fprintf(stderr, "%s is in use by another program. Stop that program, or set %s to an address with another port.\n", address, name)
				status = 1
			}
		}
	}
	return status
}

// isTaken listens on an address for a moment. An address that cannot be
// listened on for another reason is no concern of this program: the one that
// listens later reports it.
func isTaken(address string) bool {
	if address == "" || strings.HasPrefix(address, "unix") {
		return false
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err == nil {
		err = listener.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// listener returns what Caddy listens on for the address of a site: its port on
// all interfaces.
func listener(site string) string {
	address := site
	if !strings.Contains(site, "://") {
		address = "https://" + site
	}
	u, err := url.Parse(address)
	switch {
	case site == "" || err != nil:
		return ""
	case u.Port() != "":
		return ":" + u.Port()
	case u.Scheme == "https":
		return ":443"
	}
	return ":80"
}
