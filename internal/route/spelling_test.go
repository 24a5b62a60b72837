package route_test

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/route"
)

// TestPatternOfAnotherRouter adds paths as other routers write them. Each is
// refused, and the spelling in the message is accepted.
func TestPatternOfAnotherRouter(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/items/*":                       "/items/{rest...}",
		"/items/*path":                   "/items/{path...}", // httprouter, Rails
		"/*/items/*/parts":               "/{part1}/items/{part3}/parts",
		"/items/*.json":                  "/items/{part2}",
		"/items/:id":                     "/items/{id}", // Express, Rails, Gin
		"/items/:id?":                    "/items/{id}",
		"/items/:id(\\d+)":               "/items/{id}",
		"/items/:path(.*)":               "/items/{path...}",
		"/items(/:id)":                   "/items/{id}",
		"/items/<id>":                    "/items/{id}", // Flask, Django
		"/items/<path:name>":             "/items/{name...}",
		"/items/{id:[0-9]+}":             "/items/{id}", // chi, gorilla
		"/items/{path:.*}":               "/items/{path...}",
		"/items/{id:int}":                "/items/{id}",      // ASP.NET
		"/items/{*path}":                 "/items/{path...}", // Spring, axum
		"/items/{id<\\d+>}":              "/items/{id}",      // Symfony
		"/items/{id}.json":               "/items/{id}",
		"/items/[id]":                    "/items/{id}", // Next.js
		"/items/[...path]":               "/items/{path...}",
		"/items/(.*)":                    "/items/{rest...}", // nginx, Kong
		"/items/.+":                      "/items/{rest...}",
		"/items/+":                       "/items/{rest...}", // Fiber
		"/items/(?P<id>[0-9]+)":          "/items/{part2}",
		"/(v1|v2)/items":                 "/{part1}/items",
		"/items$":                        "/items",
		"^/items/$":                      "/items/",
		"~^/items":                       "/items",
		"/items?page={page}":             "/items",
		"/items/?":                       "/items/",
		"/items#top":                     "/items",
		"v1.0/items":                     "/v1.0/items",
		"api.example.com/items/:id":      "/items/{id}",
		"localhost:8080/items":           "/items",
		"https://api.example.com/items/": "/items/",
		"https://api.example.com":        "/",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			var table route.Table[bool]
			err := table.Add("GET", path, true)
			if err == nil {
				t.Fatal("got no error")
			}
			if _, ok := table.Match("GET", path); ok {
				t.Error("it was added")
			}
			_, after, _ := strings.Cut(err.Error(), ": write ")
			spelling, _, _ := strings.Cut(after, ", or %")
			if spelling != want {
				t.Fatalf("got %v, want the spelling %q", err, want)
			}
			if err := table.Add("GET", spelling, true); err != nil {
				t.Errorf("the spelling is refused: %v", err)
			}
		})
	}
}

// TestPatternWithoutSpelling adds a pattern that cannot be translated.
func TestPatternWithoutSpelling(t *testing.T) {
	t.Parallel()
	var table route.Table[bool]
	const want = `":" is no wildcard of net/http.ServeMux: write %3A for the character itself`
	if err := table.Add("GET", "/:id/parts/:id", true); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestPatternThatIsMeant adds paths that look like those of another router,
// and those that the messages offer for the characters themselves.
func TestPatternThatIsMeant(t *testing.T) {
	t.Parallel()
	for pattern, path := range map[string]string{
		"/items:batch":        "/items:batch", // https://google.aip.dev/136
		"/items/{id}/$expand": "/items/1/$expand",
		"/$count":             "/$count", // OData
		"/items(1)":           "/items(1)",
		"/items/nearest()":    "/items/nearest()",
		"/~ada":               "/~ada",
		"/a.b/v1.0":           "/a.b/v1.0",
		"/{rest...}":          "/a/b",
		"/{größe}/{$}":        "/1/",
		"/a/{file...}":        "/a/b/c", // no placeholder
		"/%2A":                "/*",
		"/%3Aid":              "/:id",
		"/%7Bid%7D":           "/{id}",
		"/%28a%29":            "/(a)",
		"/a%24":               "/a$",
		"/%5Eitems":           "/^items",
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			table := newTable(t, "GET "+pattern)
			if got, ok := table.Match("GET", path); !ok || got != "GET "+pattern {
				t.Errorf("%s: got %q", path, got)
			}
		})
	}
}

// TestMethodThatIsNotRegistered adds methods that no request can have, or that
// mean several methods to another router.
func TestMethodThatIsNotRegistered(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"":      "missing",
		"GTE":   "not a registered",
		"PURGE": "not a registered",
		"trace": "not allowed",
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var table route.Table[bool]
			if err := table.Add(method, "/items", true); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want it to say %s", err, want)
			}
		})
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PATCH", "PROPFIND", "REPORT", "VERSION-CONTROL", "QUERY"} {
		newTable(t, method+" /items")
	}
}

// TestGuardOfAnotherRouter makes guards as other routers write them. They
// would leave what they are meant to close open.
func TestGuardOfAnotherRouter(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"*":                        "/",
		"/*":                       "/",
		"/internal/*":              "/internal/",
		"/internal*":               "/internal",
		"/v1/*/admin":              "/v1/",
		"/:version/":               "/",
		"/v1/{tenant}/":            "/v1/",
		"/{env.PREFIX}/":           "/",
		"/v1/[id]":                 "/v1/",
		"/v1/(.*)":                 "/v1/",
		"/(v1|v2)/":                "/",
		"/v1$":                     "/v1",
		"^/v1/":                    "/v1/",
		"v1/":                      "/v1/",
		"":                         "/",
		"https://api.example/v1/*": "/v1/",
		"api.example:8080/v1/":     "/v1/",
	} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			_, err := route.NewGuard(prefix)
			if err == nil {
				t.Fatal("got no error")
			}
			_, spelling, _ := strings.Cut(err.Error(), ": write ")
			if spelling != want {
				t.Fatalf("got %v, want the spelling %q", err, want)
			}
			newGuard(t, spelling)
		})
	}
	for prefix, path := range map[string]string{"/my files/": "/my files/a", "/items:batch": "/items:batch", "/$metadata": "/$metadata", "/~ada/": "/~ada/x"} {
		if !newGuard(t, prefix).Covers(path) {
			t.Errorf("guard %q does not close %q", prefix, path)
		}
	}
}
