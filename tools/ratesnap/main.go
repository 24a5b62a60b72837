// Command ratesnap makes the rates snapshot that the upstream embeds, from
// dated releases of the npm package @fawazahmed0/currency-api, and checks
// it against its manifest.
//
// Each release holds the rates of one day. To repeat the snapshot:
//
//	npm view '@fawazahmed0/currency-api@>=0' version dist.integrity --json > releases.json
//	npm pack --pack-destination tarballs @fawazahmed0/currency-api@2026.9.29   (and so on)
//	go run ./tools/ratesnap -releases releases.json -in tarballs \
//		-out upstream/rates/indicative.csv -manifest upstream/rates/INDICATIVE.json
//
// The same tarballs always give the same bytes. A tarball whose SHA-512 is
// not the one that the registry published is refused. Values stay decimal
// text from the release to the CSV. Steps of more than a quarter between
// consecutive days are printed, for a person to check.
//
//	go run ./tools/ratesnap -check
//
// needs no network and no tarballs: it checks the CSV against the manifest and
// the rules of the generator. The tests run it too.
package main

import (
	"encoding/json"
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
	flags := flag.NewFlagSet("ratesnap", flag.ContinueOnError)
	releases := flags.String("releases", "", "versions and integrity hashes, as npm view prints them")
	in := flags.String("in", "", "folder of the tarballs")
	out := flags.String("out", "upstream/rates/indicative.csv", "the snapshot")
	manifest := flags.String("manifest", "upstream/rates/INDICATIVE.json", "its manifest")
	commit := flags.String("commit", "", "the commit of this generator, for the manifest")
	check := flags.Bool("check", false, "check the snapshot instead of making it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *check {
		return checkFiles(*out, *manifest, output)
	}
	list, err := readReleases(*releases)
	if err != nil {
		return fmt.Errorf("reading the releases: %w", err)
	}
	days, err := readTarballs(*in, list)
	if err != nil {
		return fmt.Errorf("reading the tarballs: %w", err)
	}
	if err := reportJumps(days, output); err != nil {
		return fmt.Errorf("comparing days: %w", err)
	}
	table := writeTable(days)
	described, err := json.MarshalIndent(describe(days, table, *commit), "", " ")
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if err := os.WriteFile(*out, table, 0o644); err != nil {
		return err
	}
	return os.WriteFile(*manifest, append(described, '\n'), 0o644)
}
