package policy_test

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/route"
)

//go:embed testdata/routes.txt
var published string

// document has the routes of a published OpenAPI document as patterns of
// ServeMux. Text beside a wildcard ("/{name}.json") and a fragment have none, and
// of two ambiguous templates the second one is left out.
type document struct {
	title               string
	routes, ambiguous   []string
	withoutPattern, all int
}

func documents(t testing.TB) (all []document) {
	t.Helper()
	for line := range strings.Lines(published) {
		first, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if first == "=" {
			title, _, _ := strings.Cut(rest, " | ")
			all = append(all, document{title: title})
		}
		if first == "=" || first == "#" {
			continue
		}
		d := &all[len(all)-1]
		path, ok := pathOf(rest)
		for method := range strings.SplitSeq(first, ",") {
			d.all++
			if ok {
				d.routes = append(d.routes, method+" "+path)
			} else {
				d.withoutPattern++
			}
		}
	}
	for i := range all {
		d := &all[i]
		var m model
		d.routes = slices.DeleteFunc(d.routes, func(pattern string) bool {
			refused := m.add("", pattern) != nil
			if refused {
				d.ambiguous = append(d.ambiguous, pattern)
			}
			return refused
		})
	}
	return all
}

var (
	wildcard  = regexp.MustCompile(`\{[^}]*\}`)
	notInName = regexp.MustCompile(`\W`)
)

// pathOf returns the path of a template as a pattern.
func pathOf(template string) (path string, ok bool) {
	segments := strings.Split(template, "/")
	for i, segment := range segments {
		if !strings.ContainsAny(segment, "{}#?") {
			continue
		}
		if segment[0] != '{' || strings.IndexByte(segment, '}') != len(segment)-1 {
			return "", false
		}
		segments[i] = "{" + notInName.ReplaceAllString(segment[1:len(segment)-1], "_") + "}"
	}
	path = strings.Join(segments, "/")
	if strings.HasSuffix(path, "/") {
		path += "{$}"
	}
	return path, true
}

// layouts are ways to make endpoints of the routes of a document.
var layouts = []struct {
	name string
	make func(routes []string) []policy.EndpointConfig
}{
	{"one endpoint", func(routes []string) []policy.EndpointConfig {
		return []policy.EndpointConfig{{Name: "api", Patterns: routes}}
	}},
	{"groups", groups},
	{"single routes", singles},
	{"single routes and a rest", func(routes []string) []policy.EndpointConfig {
		return append(singles(routes), policy.EndpointConfig{Name: "rest", Patterns: []string{"* /{rest...}"}})
	}},
	{"a mix", mix},
}

func singles(routes []string) (all []policy.EndpointConfig) {
	for i, pattern := range routes {
		all = append(all, policy.EndpointConfig{Name: fmt.Sprintf("single%d", i), Patterns: []string{pattern}})
	}
	return all
}

// groups makes an endpoint of the routes with the same first three names. Every
// second one has all other paths there too, unless that is ambiguous.
func groups(routes []string) (all []policy.EndpointConfig) {
	var m model
	for _, pattern := range routes {
		_ = m.add("", pattern)
	}
	index := map[string]int{}
	for _, pattern := range routes {
		var names []string
		_, path, _ := strings.Cut(strings.TrimSuffix(pattern, "/{$}"), " ")
		end := 0
		for segment := range strings.SplitSeq(path[min(1, len(path)):], "/") {
			if end += 1 + len(segment); segment != "" && segment[0] != '{' {
				names = append(names, segment)
			}
			if len(names) == 3 {
				break
			}
		}
		key := strings.Join(names, "/")
		i, ok := index[key]
		if !ok {
			i = len(all)
			index[key] = i
			all = append(all, policy.EndpointConfig{Name: fmt.Sprintf("group%d", i)})
			if rest := "* " + path[:min(end, len(path))] + "/{rest...}"; i%2 == 0 && m.add("", rest) == nil {
				all[i].Patterns = append(all[i].Patterns, rest)
			}
		}
		all[i].Patterns = append(all[i].Patterns, pattern)
	}
	return all
}

// mix makes three endpoints. Some of their routes have any method, capital letters,
// or an end that an OpenAPI document cannot have.
func mix(routes []string) []policy.EndpointConfig {
	all := []policy.EndpointConfig{{Name: "first"}, {Name: "second"}, {Name: "third"}}
	random := rand.New(rand.NewPCG(2, uint64(len(routes))))
	var m model
	for _, pattern := range routes {
		method, path, _ := strings.Cut(pattern, " ")
		segments := strings.Split(strings.TrimSuffix(path, "/{$}"), "/")
		at := random.IntN(len(segments))
		switch random.IntN(5) {
		case 0:
			segments = append(segments[:at+1], pick(random, []string{"{rest...}", "", "{$}"}))
		case 1:
			if !strings.HasPrefix(segments[at], "{") {
				segments[at] = strings.ToUpper(segments[at])
			}
		}
		pattern = pick(random, []string{"*", "HEAD", method, method}) + " " + strings.Join(segments, "/")
		if e := &all[random.IntN(3)]; m.add("", pattern) == nil {
			e.Patterns = append(e.Patterns, pattern)
		}
	}
	return all
}

var someMethods = []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

// randomRequest makes a request of a random route. Some have another method,
// another case, a slash at the end, or a segment more or less.
func randomRequest(random *rand.Rand, routes []string) (method, path string) {
	method, path, _ = strings.Cut(pick(random, routes), " ")
	if method == http.MethodGet && random.IntN(4) == 0 {
		method = http.MethodHead
	}
	segments := strings.Split(strings.TrimSuffix(path, "{$}"), "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = randomName(random, routes)
		}
	}
	last := len(segments) - 1
	switch random.IntN(10) {
	case 0:
		method = pick(random, append(someMethods, "PROPFIND", "PURGE"))
	case 1:
		segments[last] += "/"
	case 2:
		if segments[last] != "" {
			segments = append(segments, randomName(random, routes))
		}
	case 3:
		segments = segments[:max(2, last)]
	case 4:
		i := random.IntN(len(segments))
		segments[i] = pick(random, []string{strings.ToUpper(segments[i]), strings.ToLower(segments[i])})
	}
	return method, strings.ReplaceAll(strings.Join(segments, "/"), "//", "/")
}

// randomName makes a name, or takes one of another route, also in other case.
func randomName(random *rand.Rand, routes []string) string {
	name := pick(random, []string{"7", "acme", "cus_9s6XKzkNRiz8i3", "a.b~c", "é", "x y", "{id}", "Octo-Org"})
	if random.IntN(2) == 0 {
		_, path, _ := strings.Cut(pick(random, routes), "/")
		name = pick(random, strings.Split(strings.TrimSuffix(path, "/{$}"), "/"))
	}
	switch random.IntN(4) {
	case 0:
		name = strings.ToUpper(name)
	case 1:
		name = strings.ToLower(name)
	}
	return name
}

func pick(random *rand.Rand, list []string) string { return list[random.IntN(len(list))] }

// TestPublishedRoutes sends random requests to the routes of published documents
// and asks ServeMux for their endpoints.
func TestPublishedRoutes(t *testing.T) {
	t.Parallel()
	all, routes := documents(t), 0
	for _, d := range all {
		routes += len(d.routes)
		t.Logf("%s: %d routes; left out: %d without a pattern, %d ambiguous: %v", d.title, d.all, d.withoutPattern, len(d.ambiguous), d.ambiguous)
	}
	if len(all) != 10 || routes < 4000 {
		t.Fatalf("got %d documents with %d routes, want 10 with 4000 or more", len(all), routes)
	}
	for _, d := range all {
		for _, layout := range layouts {
			t.Run(d.title+"/"+layout.name, func(t *testing.T) {
				t.Parallel()
				checkRequests(t, layout.make(d.routes), d.routes)
			})
		}
	}
}

// name returns the name of the endpoint of a route, or "".
func name(r policy.Route) string {
	if r.Endpoint == nil {
		return ""
	}
	return r.Endpoint.Name
}

func checkRequests(t *testing.T, endpoints []policy.EndpointConfig, routes []string) {
	var m model
	for _, e := range endpoints {
		for _, pattern := range e.Patterns {
			if err := m.add(e.Name, pattern); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := compile(t, policy.Config{Endpoints: endpoints})
	random := rand.New(rand.NewPCG(1, uint64(len(routes))))
	count := map[string]int{}
	for range 1000 {
		method, path := randomRequest(random, routes)
		want, alias := m.find(method, path)
		target := route.Target{Path: path}
		found, ok, err := p.Routes.Find(method, &target)
		if got := name(found); got != want || ok != (want != "") || err != nil {
			t.Fatalf("%s %q: got %q, %v, want %q (alias: %t)", method, path, got, err, want, alias)
		}
		if again, ok := p.Routes.Match(method, path); name(again) != want || ok != (want != "") {
			t.Fatalf("%s %q: Match has %q, Find has %q", method, path, name(again), want)
		}
		for _, never := range []string{http.MethodConnect, http.MethodTrace, strings.ToLower(method), method[:1] + strings.ToLower(method[1:])} {
			if matched, ok := p.Routes.Match(never, path); ok {
				t.Fatalf("%s %q: got %q, want no match", never, path, name(matched))
			}
		}
		kind := "found"
		if !ok {
			var allow []string
			for _, method := range someMethods {
				if other, _ := m.find(method, path); other != "" && !alias {
					allow = append(allow, method)
				}
			}
			if got, want := p.Routes.Allow(&target), strings.Join(allow, ", "); got != want {
				t.Fatalf("%s %q: Allow is %q, want %q", method, path, got, want)
			}
			kind = fmt.Sprintf("refused, alias: %t, other methods: %t", alias, allow != nil)
		}
		count[kind]++
	}
	t.Logf("%d endpoints, %d routes: %v", len(endpoints), len(m.routes), count)
}

// BenchmarkMatch finds the endpoint of requests among 10 to 1000 routes of a
// published document, each an endpoint of its own. The tables have ten routes in
// common, which the hits ask for in turn.
func BenchmarkMatch(b *testing.B) {
	routes := documents(b)[0].routes
	gets := slices.DeleteFunc(slices.Clone(routes), func(pattern string) bool {
		return !strings.HasPrefix(pattern, "GET ") || strings.HasSuffix(pattern, "/{$}")
	})
	var common, paths, missing []string
	for i := range 10 {
		pattern := gets[i*len(gets)/10]
		path := wildcard.ReplaceAllString(strings.TrimPrefix(pattern, "GET "), "octocat")
		common, paths, missing = append(common, pattern), append(paths, path), append(missing, path+"/nothing/here")
	}
	routes = append(common, slices.DeleteFunc(routes, func(pattern string) bool { return slices.Contains(common, pattern) })...)
	for _, c := range []struct {
		name, method string
		paths        []string
		more         []string
		want         bool
	}{
		{"hit", "GET", paths, nil, true},
		{"hit of HEAD", "HEAD", paths, nil, true},
		{"miss", "GET", missing, nil, false},
		{"rest", "GET", missing, []string{"* /{rest...}"}, true},
	} {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/routes=%d", c.name, n), func(b *testing.B) {
				p := compile(b, policy.Config{Endpoints: singles(slices.Concat(routes[:n], c.more))})
				i := 0
				for b.Loop() {
					if _, ok := p.Routes.Match(c.method, c.paths[i%len(c.paths)]); ok != c.want {
						b.Fatalf("%s %s: found: %t", c.method, c.paths[i%len(c.paths)], ok)
					}
					i++
				}
			})
		}
	}
}
