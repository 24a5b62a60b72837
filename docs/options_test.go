package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write options.md")

// described are the types of the configuration, in the order of options.md. An
// option whose value is such a type has no line of its own: its section says it.
var described = []struct{ folder, name, title string }{
	{"../caddymodule", "App", "The app `tollgate`"},
	{"../internal/policy", "Config", ""}, // its fields are those of the app
	{"../internal/policy", "LoginThrottle", "`login_throttle`"},
	{"../internal/policy", "CORSConfig", "`cors`"},
	{"../internal/policy", "IdentityConfig", "`identity`"},
	{"../internal/policy", "AnonymousConfig", "`anonymous`"},
	{"../internal/policy", "AddressLimit", "An element of `per_address`"},
	{"../internal/policy", "EndpointConfig", "An element of `endpoints`"},
	{"../internal/policy", "CostAnswerConfig", "`cost_answer` of an endpoint"},
	{"../internal/policy", "JSONRPC", "`jsonrpc` of an endpoint"},
	{"../internal/policy", "PlanConfig", "An element of `plans`"},
	{"../internal/policy", "LimitConfig", "An element of `more_limits` of a plan"},
	{"../internal/policy", "ConcurrentConfig", "An element of `concurrent` of a plan"},
	{"../internal/feature/declare", "Account", "An element of `accounts`"},
	{"../internal/feature/declare", "Key", "An element of `keys` of an account"},
	{"../internal/feature/event", "Webhook", "`webhook`"},
	{"../internal/feature/feed", "Feed", "`feed`"},
	{"../caddymodule", "BadgerStore", "`store` with the module `badger`"},
	{"../caddymodule/redis", "Store", "`store` with the module `redis`"},
	{"../upstream/caddyupstream", "Upstream", "The handler `tollgate_upstream`"},
	{"../upstream/app", "Settings", ""}, // its fields are options of the handler
}

// TestOptions compares options.md with the comments of the types. Run it with
// -update to write options.md.
func TestOptions(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	b.WriteString("# Reference of all options\n\nThe names are those of Caddy's JSON. [Configuration](configuration.md) explains the options of a Caddyfile. " +
		"`go test ./docs -run TestOptions -update` makes this page from the comments of the code.\n")
	for _, d := range described {
		doc, fields := structOf(t, d.folder, d.name)
		if d.title != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", d.title, doc)
		}
		for _, f := range fields {
			if hasSection(f.name) && strings.Contains(f.kind, "object") {
				continue
			}
			fmt.Fprintf(&b, "- **`%s`** (%s): %s\n", f.name, f.kind, f.doc)
		}
	}
	const page = "options.md"
	if *update {
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Error("options.md differs from the comments: run go test ./docs -run TestOptions -update")
	}
}

// registration finds the type of a module that a file registers.
var registration = regexp.MustCompile(`caddy\.RegisterModule\(\(\*(\w+)\)\(nil\)\)`)

// TestModules checks what people find on caddyserver.com: its search reads 120
// characters of the comment of each module.
func TestModules(t *testing.T) {
	t.Parallel()
	modules := 0
	walk(t, func(file string) error {
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		for _, match := range registration.FindAllStringSubmatch(string(text), -1) {
			modules++
			folder, name := filepath.Dir(file), match[1]
			doc, fields := structOf(t, folder, name)
			first, _, _ := strings.Cut(doc, ". ")
			if len(first) > 119 || !strings.HasPrefix(first, name+" ") || !strings.Contains(first, "API keys") {
				t.Errorf("%s: the first sentence of %s has %d characters; say its job in 119, with \"API keys\": %s", file, name, len(first), first)
			}
			if len(fields) > 0 && !slices.ContainsFunc(described, func(d struct{ folder, name, title string }) bool { return d.folder == folder && d.name == name }) {
				t.Errorf("options.md lacks the options of %s", name)
			}
		}
		return err
	})
	if modules < 8 {
		t.Errorf("found %d modules, want at least 8", modules)
	}
}

// hasSection tells whether the title of a section names an option.
func hasSection(option string) bool {
	for _, d := range described {
		if strings.Contains(d.title, "`"+option+"`") {
			return true
		}
	}
	return false
}

// field is an option.
type field struct{ name, kind, doc string }

// structOf returns the comment of a struct and its options.
func structOf(t *testing.T, folder, name string) (doc string, fields []field) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			for _, spec := range group.Specs {
				if s := spec.(*ast.TypeSpec); s.Name.Name == name {
					return plain(group.Doc.Text()), options(t, s.Type.(*ast.StructType))
				}
			}
		}
	}
	t.Fatalf("no type %s in %s", name, folder)
	return "", nil
}

func options(t *testing.T, s *ast.StructType) (fields []field) {
	t.Helper()
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			if len(f.Names) > 0 && f.Names[0].IsExported() {
				t.Errorf("the option %s has no JSON name", f.Names[0])
			}
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		if f.Doc == nil {
			t.Errorf("the option %s has no comment", name)
		}
		if _, isMap := f.Type.(*ast.MapType); !isMap && strings.Contains(kindOf(f.Type), "object") && !hasSection(name) {
			t.Errorf("the option %s is an object without a section", name)
		}
		fields = append(fields, field{name, kindOf(f.Type), unnamed(plain(f.Doc.Text()), f.Names[0].Name)})
	}
	return fields
}

// unnamed leaves out the name of the Go field and the verb with which a comment
// begins.
func unnamed(comment, goName string) string {
	rest, _ := strings.CutPrefix(comment, goName+" ")
	for _, verb := range []string{"is ", "are ", "has ", "holds ", "lists "} {
		rest = strings.TrimPrefix(rest, verb)
	}
	return rest
}

// kindOf names the JSON type of an option.
func kindOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.ArrayType:
		return "list of " + kindOf(e.Elt) + "s"
	case *ast.MapType:
		return "object"
	case *ast.StarExpr:
		return kindOf(e.X)
	case *ast.SelectorExpr:
		return kindOf(e.Sel)
	case *ast.Ident:
		switch e.Name {
		case "string", "Refund", "Mode", "Errors":
			return "string"
		case "bool":
			return "true or false"
		case "int", "int64", "uint64", "Number":
			return "number"
		case "Duration":
			return "duration"
		case "Limit":
			return "number or \"unlimited\""
		}
	}
	return "object"
}

// plain returns a comment as one paragraph.
func plain(comment string) string { return strings.Join(strings.Fields(comment), " ") }
