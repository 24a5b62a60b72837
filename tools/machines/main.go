// Command machines checks that the modules and the upstream build for every system
// that Caddy runs on. It checks the types of the packages that the programs need,
// those of other modules without function bodies: a few seconds for each system.
// With -build it runs go vet and go build instead, which compile all of them:
// minutes for each.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/tools/go/packages"
)

// machines are operating systems and processors.
var machines = []string{
	"linux/amd64", "linux/arm64", "linux/arm", "linux/mipsle", "linux/386",
	"darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64",
	"freebsd/amd64", "freebsd/arm64", "openbsd/amd64", "openbsd/arm64",
}

// programs are the packages to build, and vetted those to vet: the tests of the
// upstream need Linux.
var (
	programs = []string{"./caddymodule/...", "./upstream/..."}
	vetted   = []string{"./caddymodule/...", "./internal/..."}
)

func main() {
	build := flag.Bool("build", false, "run go vet and go build")
	flag.Parse()
	failed := false
	for _, machine := range machines {
		var err error
		if *build {
			err = compile(machine)
		} else {
			err = check(machine, nil, programs...)
		}
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "machines: %s: %v\n", machine, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// environment is that of the go command for a machine.
func environment(machine string) []string {
	system, processor, _ := strings.Cut(machine, "/")
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+processor)
}

// check checks the types of packages and of what they need. overlay replaces files.
func check(machine string, overlay map[string][]byte, patterns ...string) error {
	const module = "github.com/caddy-tollgate/tollgate/"
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax,
		Env:  environment(machine), Overlay: overlay,
		ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
			if strings.Contains(name, "@") && file != nil { // of another module
				for _, declaration := range file.Decls {
					if function, ok := declaration.(*ast.FuncDecl); ok {
						function.Body = nil
					}
				}
			}
			return file, err
		},
	}, patterns...)
	if err != nil {
		return err
	}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, one := range p.Errors {
			if strings.HasPrefix(p.PkgPath, module) {
				err = errors.Join(err, one)
			}
		}
	})
	return err
}

// compile compiles and vets.
func compile(machine string) error {
	for _, arguments := range [][]string{append([]string{"vet"}, vetted...), append([]string{"build", "-o", os.DevNull}, programs...)} {
		command := exec.Command("go", arguments...)
		command.Env = environment(machine)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", arguments[0], err, out)
		}
	}
	return nil
}
