// Command upstream serves the currency API behind a Tollgate gate, and
// administers the accounts that may use it.
//
//	upstream serve
//	upstream account add ada@example.com --plan starter < password
//	upstream account list
//	upstream rates status
//
// The gate stores plans, keys and counts. This program stores e-mails and
// passwords and calls the gate's control API. Both read the same environment
// variables, which "upstream help" lists.
package main

import (
	"os"

	_ "time/tzdata" // for machines without zone files

	"github.com/caddy-tollgate/tollgate/upstream/cli"
)

func main() {
	os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
