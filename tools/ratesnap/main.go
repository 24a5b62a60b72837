// Command ratesnap makes and checks the tables of rates that the upstream
// embeds, with the origin of every value: the ECB's file, the parities, and
// the indicative rates.
//
// The ECB's file is taken byte for byte, if it contradicts no value of the one
// before:
//
//	curl -O https://www.ecb.europa.eu/stats/eurofxref/eurofxref-hist.zip
//	go run ./tools/ratesnap ecb -in eurofxref-hist.zip
//
// The indicative rates are those of dated releases of the npm package
// @fawazahmed0/currency-api that neither the ECB nor a parity has. Make them
// again after a new ECB's file and after a new parity:
//
//	npm view '@fawazahmed0/currency-api@>=0' version dist.integrity --json > releases.json
//	npm pack --pack-destination tarballs @fawazahmed0/currency-api@2026.9.29   (and so on)
//	go run ./tools/ratesnap indicative -releases releases.json -in tarballs
//
// The same tarballs always give the same bytes. A tarball whose SHA-512 is
// not the one that the registry published is refused. Values stay decimal
// text from the release to the CSV. INDICATIVE.json lists what was left out.
//
// parities.csv is kept by hand: each line has the authority that says so and
// its page. Where that names only a month or a year, the first day is that
// month's or year's. A parity that no bank, law or treaty confirms is not
// there.
//
//	go run ./tools/ratesnap check
//
// needs no network and no tarballs: it checks all three tables against their
// origin and the rules of this command. The tests run it too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ratesnap:", err)
		os.Exit(1)
	}
}

func run(args []string, output io.Writer) error {
	if len(args) == 0 {
		return errors.New("no verb: want ecb, indicative or check")
	}
	flags := flag.NewFlagSet("ratesnap "+args[0], flag.ContinueOnError)
	folder := flags.String("dir", "upstream/currency/rates", "folder of the tables")
	in := flags.String("in", "", "ecb: the ECB's zip file; indicative: folder of the tarballs")
	releases := flags.String("releases", "", "indicative: versions and integrity hashes, as npm view prints them")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "ecb":
		return takeBank(*folder, *in)
	case "indicative":
		return makeIndicative(*folder, *releases, *in)
	case "check":
		return check(*folder, output)
	}
	return fmt.Errorf("unknown verb %q: want ecb, indicative or check", args[0])
}
