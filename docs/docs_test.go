// Package docs_test checks the documentation against the repository.
package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = ".."

// TestIsShort checks the length of the README, and of README and docs
// together.
func TestIsShort(t *testing.T) {
	t.Parallel()
	if lines := strings.Count(read(t, "README.md"), "\n"); lines > 130 {
		t.Errorf("README.md has %d lines, want at most 130", lines)
	}
	words, all := 0, slices.DeleteFunc(pages(t), func(page string) bool { return page == "CONTRIBUTING.md" })
	for _, page := range all {
		words += len(strings.Fields(read(t, page)))
	}
	if len(all) > 13 || words > 25_750 {
		t.Errorf("README.md and docs have %d pages and %d words, want at most 13 and 25,750", len(all), words)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fence   = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```$")
)

// TestLinks checks that the README links to every page, and that all links
// within the repository work.
func TestLinks(t *testing.T) {
	t.Parallel()
	linked := map[string]bool{"README.md": true}
	for _, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, page), ""), -1) {
			target := match[1] + match[2]
			if strings.Contains(target, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			to := page
			if file != "" {
				to = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s: %v", page, target, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", page, target)
			}
			if page == "README.md" {
				linked[to] = true
			}
		}
	}
	for _, page := range pages(t) {
		if !linked[page] {
			t.Errorf("README.md does not link to %s", page)
		}
	}
}

// anchors returns the anchors that GitHub gives to the headings of a page.
func anchors(text string) (all []string) {
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		anchor := strings.ToLower(match[1])
		anchor = regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(anchor, "")
		all = append(all, strings.ReplaceAll(anchor, " ", "-"))
	}
	return all
}

var (
	code     = regexp.MustCompile("`([^`]+)`")
	function = regexp.MustCompile(`^[a-z]\w*(\.[A-Za-z]\w*){1,2}$`)
	exported = regexp.MustCompile(`^[a-z]\w*\.[A-Z]\w*(\.\w+)?$`)
)

// TestArchitecture checks that the functions and types exist that
// CONTRIBUTING.md and docs/architecture.md name, and that
// docs/architecture.md lists all packages.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	names, packages := declared(t)
	for _, page := range []string{"CONTRIBUTING.md", "docs/architecture.md"} {
		for _, match := range code.FindAllStringSubmatch(read(t, page), -1) {
			if name := match[1]; exported.MatchString(name) && !names[name] {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
	_, steps, found := strings.Cut(read(t, "docs/architecture.md"), "\n## A metered call, step by step\n")
	if !found {
		t.Fatal("docs/architecture.md lacks the steps of a metered call")
	}
	named := 0
	for _, match := range code.FindAllStringSubmatch(steps, -1) {
		if name := match[1]; function.MatchString(name) {
			named++
			if !names[name] {
				t.Errorf("docs/architecture.md names %s, which does not exist", name)
			}
		}
	}
	if named < 20 {
		t.Errorf("docs/architecture.md names %d functions; the test no longer understands the page", named)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(read(t, "docs/architecture.md")) {
		if group, list, found := strings.Cut(line, "**: "); found && strings.HasPrefix(group, "- **") {
			for _, match := range code.FindAllStringSubmatch(list, -1) {
				above, tree := strings.CutSuffix(match[1], "/...")
				for name := range packages {
					if name == above || tree && strings.HasPrefix(name, above+"/") {
						listed[match[1]], listed[name] = true, true
					}
				}
				if !listed[match[1]] {
					t.Errorf("docs/architecture.md lists %s, which is no package", match[1])
				}
			}
		}
	}
	for name := range packages {
		if !listed[name] {
			t.Errorf("docs/architecture.md does not list the package %s", name)
		}
	}
}

// TestReadingList checks the files to read in an afternoon, and how long they are.
func TestReadingList(t *testing.T) {
	t.Parallel()
	_, list, _ := strings.Cut(read(t, "docs/architecture.md"), "\n## Read in an afternoon\n")
	list, _, _ = strings.Cut(list, "\n## ")
	lines := 0
	for _, match := range code.FindAllStringSubmatch(list, -1) {
		if filepath.Ext(match[1]) == ".go" {
			lines += strings.Count(read(t, match[1]), "\n")
		}
	}
	if lines < 5000 || lines > 6400 {
		t.Errorf("the files to read in an afternoon have %d lines", lines)
	}
	if want := fmt.Sprintf("%d,%d00 lines", lines/1000, lines%1000/100); !strings.Contains(list, want) {
		t.Errorf("the page does not say %q", want)
	}
}

// declared returns the functions and types of the repository, as package.Name or
// package.Type.Method, and the folders of its packages. It ignores tests.
func declared(t *testing.T) (names, packages map[string]bool) {
	t.Helper()
	names, packages = map[string]bool{}, map[string]bool{}
	walk(t, func(file string) error {
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		packages[filepath.ToSlash(folder)] = true
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				names[parsed.Name.Name+"."+receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if named, ok := spec.(*ast.TypeSpec); ok {
						names[parsed.Name.Name+"."+named.Name.Name] = true
					}
				}
			}
		}
		return err
	})
	return names, packages
}

// receiver returns the type of a method and a dot, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	return of.(*ast.Ident).Name + "."
}

// TestBlocks checks that no page has a block of a Caddyfile on one line, which
// Caddy refuses.
func TestBlocks(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("`[a-z_]+ [^`]*\\{ [^`]*`")
	for _, page := range pages(t) {
		for _, found := range block.FindAllString(fence.ReplaceAllString(read(t, page), ""), -1) {
			t.Errorf("%s has %s on one line", page, found)
		}
	}
}

var (
	testName = regexp.MustCompile("`(Test\\w+)`")
	filePath = regexp.MustCompile("`([\\w.-]+(?:/[\\w.-]+)+)`")
)

// TestContributing checks that the files exist that CONTRIBUTING.md names, and
// the tests that it and docs/guarantees.md name. Each bound of the memory has a
// test.
func TestContributing(t *testing.T) {
	t.Parallel()
	text, guarantees := read(t, "CONTRIBUTING.md"), read(t, "docs/guarantees.md")
	tests := sources(t, true)
	for _, match := range testName.FindAllStringSubmatch(text+guarantees, -1) {
		if !strings.Contains(tests, "func "+match[1]+"(") {
			t.Errorf("CONTRIBUTING.md or docs/guarantees.md names %s, which does not exist", match[1])
		}
	}
	_, bounds, _ := strings.Cut(guarantees, "\n| what | filled by | at most | test |\n|---|---|---|---|\n")
	bounds, _, _ = strings.Cut(bounds, "\n\n")
	for line := range strings.Lines(bounds) {
		if cells := strings.Split(line, "|"); len(cells) != 6 || !testName.MatchString(cells[4]) {
			t.Errorf("docs/guarantees.md: no test in %q", line)
		}
	}
	if n := strings.Count(bounds, "\n"); n < 10 {
		t.Errorf("docs/guarantees.md has %d bounds of the memory; the test no longer understands the page", n)
	}
	for _, match := range filePath.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(match[1], "bin/") || strings.HasPrefix(match[1], ".cache/") {
			continue // what the commands build
		}
		if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
			t.Errorf("CONTRIBUTING.md: %v", err)
		}
	}
}

// message is one that the operator reads, or its constant part.
var message = regexp.MustCompile(`[^…:"]{9,}`)

// TestMessages checks that the programs contain the messages that
// docs/operations.md explains.
func TestMessages(t *testing.T) {
	t.Parallel()
	source := sources(t, false)
	checked := 0
	for _, header := range []string{"\n| message | what fails |", "\n| message | cause |"} {
		_, table, found := strings.Cut(read(t, "docs/operations.md"), header)
		if !found {
			t.Fatalf("docs/operations.md lacks the table %q", header)
		}
		table, _, _ = strings.Cut(table, "\n\n")
		for line := range strings.Lines(table) {
			first := strings.Split(line+"||", "|")[1]
			for _, match := range code.FindAllStringSubmatch(first, -1) {
				for _, part := range message.FindAllString(match[1], -1) {
					part = strings.Trim(part, " /,")
					checked++
					if !strings.Contains(source, part) {
						t.Errorf("no program contains %q, of `%s`", part, match[1])
					}
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("checked %d messages; the test no longer understands the page", checked)
	}
}

// TestComparison checks that docs/comparison.md has a source for each cell of the
// README's table about other products.
func TestComparison(t *testing.T) {
	t.Parallel()
	claims, cited := table(t, "README.md", "| | Tollgate |"), table(t, "docs/comparison.md", "| | Kong ")
	if len(claims) != 8 || len(cited) != len(claims) {
		t.Fatalf("the tables have %d and %d lines, want 8", len(claims), len(cited))
	}
	for i, line := range claims {
		line = slices.Delete(line, 2, 3) // what Tollgate does is in the other pages
		if len(line) != len(cited[i]) || line[1] != cited[i][1] {
			t.Errorf("docs/comparison.md has the line %q, README.md %q", cited[i], line)
			continue
		}
		for column := 2; i != 1 && column < len(line)-1; column++ {
			if source := cited[i][column]; i == 0 && !strings.Contains(source, strings.TrimSpace(line[column])) || i > 1 && !strings.Contains(source, "](https://") {
				t.Errorf("docs/comparison.md has no source for%sand %s", line[1], cited[0][column])
			}
		}
	}
}

// table returns the cells of the table of a page that begins so.
func table(t *testing.T, page, header string) (lines [][]string) {
	t.Helper()
	_, text, found := strings.Cut(read(t, page), "\n"+header)
	if !found {
		t.Fatalf("%s lacks the table %q", page, header)
	}
	text, _, _ = strings.Cut(header+text, "\n\n")
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Split(line, "|"))
	}
	return lines
}

// sources returns the text of all tests of the repository, or of all other
// Go files.
func sources(t *testing.T, tests bool) string {
	t.Helper()
	var all strings.Builder
	walk(t, func(file string) error {
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") != tests {
			return nil
		}
		text, err := os.ReadFile(file)
		all.Write(text)
		return err
	})
	return all.String()
}

// walk calls visit with the path of each file of the repository.
func walk(t *testing.T, visit func(file string) error) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			return visit(file)
		case strings.HasPrefix(entry.Name(), ".") && file != root, entry.Name() == "testdata", entry.Name() == "data":
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pages returns the pages of the documentation.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	if err != nil || len(found) == 0 {
		t.Fatalf("finding pages: %v, %v", found, err)
	}
	all := []string{"README.md", "CONTRIBUTING.md"}
	for _, page := range found {
		all = append(all, "docs/"+page)
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
