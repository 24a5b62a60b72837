// Command ports fails if a program already listens on one of its arguments.
// The first has the addresses of sites as in a Caddyfile, with commas between
// them. The others are addresses, or empty. Caddy would share a port with
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

func run(arguments []string, stderr io.Writer) (status int) {
	report := func(name, address string) {
		if err := check(address); err != nil {
			fmt.Fprintf(stderr, "%s is in use: %v. Stop the other program, or choose another port.\n", name, err)
			status = 1
		}
	}
	for site := range strings.SplitSeq(arguments[0], ",") {
		site = strings.TrimSpace(site)
		report(site, listener(site))
	}
	for _, address := range arguments[1:] {
		report(address, address)
	}
	return status
}

// check listens on an address for a moment. An address that cannot be listened
// on for another reason is no concern of this program.
func check(address string) error {
	if address == "" || strings.HasPrefix(address, "unix") {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return errors.New("another program listens on " + address)
	case err != nil:
		return nil //nolint:nilerr // the program that listens later reports it
	}
	return listener.Close()
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
