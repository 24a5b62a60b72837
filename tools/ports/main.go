// Command ports fails if a program already listens on one of its arguments,
// which are addresses, URLs of sites, or empty. Caddy would share a port with
// another Caddy without an error, and the kernel would distribute the
// connections.
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
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(addresses []string, stderr io.Writer) (status int) {
	for _, address := range addresses {
		if err := check(address); err != nil {
			fmt.Fprintf(stderr, "%s is in use: %v. Stop the other program, or choose another port.\n", address, err)
			status = 1
		}
	}
	return status
}

// check listens on an address for a moment. An address that cannot be listened
// on for another reason is no concern of this program.
func check(address string) error {
	at := endpoint(address)
	if at == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return errors.New("another program listens on " + at)
	case err != nil:
		return nil //nolint:nilerr // the program that listens later reports it
	}
	return listener.Close()
}

// endpoint returns what a program listens on for an address. For a site that is
// the port, on all interfaces.
func endpoint(address string) string {
	site, err := url.Parse(address)
	switch {
	case address == "" || strings.HasPrefix(address, "unix"):
		return ""
	case err != nil || site.Host == "":
		return address
	case site.Port() != "":
		return ":" + site.Port()
	case site.Scheme == "https":
		return ":443"
	}
	return ":80"
}
