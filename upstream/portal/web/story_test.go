package web

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// story is a page in one state, rendered from fixtures.
type story func(s *site, w http.ResponseWriter) error

var storyTime = time.Date(2026, 11, 20, 18, 47, 30, 0, time.UTC)

func problemStory(err error, plan string) story {
	return func(s *site, w http.ResponseWriter) error {
		var v *visit
		if plan != "" {
			v = storyVisit(plan)
		}
		s.fail(w, httptest.NewRequest(http.MethodGet, "/", nil), v, err)
		return nil
	}
}

// stories are all states of all pages.
func stories() map[string]story {
	all := map[string]story{}
	for _, some := range []map[string]story{accountStories(), keyStories(), usageStories(), docsStories(), problemStories(), operatorStories()} {
		maps.Copy(all, some)
	}
	return all
}

func problemStories() map[string]story {
	return map[string]story{
		"gate-unreachable": problemStory(client.ErrUnreachable, ""),
		"not-found":        problemStory(errNotFound, "starter"),
		"broken":           problemStory(errors.New("the disk is on fire"), ""),
		"busy":             problemStory(account.ErrBusy, ""),
		"cross-origin":     problemStory(errCrossOrigin, "starter"),
		"wrong-method":     problemStory(errMethod, ""),
	}
}

// loaded is a request as pages get it.
func loaded(s *site, r *http.Request) *http.Request {
	r, err := s.sessions.Load(r)
	if err != nil {
		panic(err)
	}
	return r
}

// tell renders a story.
func tell(t *testing.T, s *site, name string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	if err := stories()[name](s, w); err != nil {
		t.Fatal(err)
	}
	return w
}

// maxPage is what a page may weigh with its style, script and icon.
const maxPage = 80 << 10 // with a hundred keys

func TestStories(t *testing.T) {
	t.Parallel()
	s := storySite(t)
	for _, name := range slices.Sorted(maps.Keys(stories())) {
		t.Run(name, func(t *testing.T) {
			body := tell(t, s, name).Body.Bytes()
			weight := len(body)
			for path, file := range s.views.assets.files {
				if bytes.Contains(body, []byte(path)) {
					weight += len(file.content)
				}
			}
			if weight > maxPage {
				t.Errorf("%d bytes with style, script and icon, want at most %d", weight, maxPage)
			}
			if primary := bytes.Count(body, []byte(`primary"`)); primary > 1 {
				t.Errorf("has %d primary buttons, want at most 1", primary)
			}
			if _, empty, found := bytes.Cut(body, []byte(`"card empty"`)); found {
				if actions := bytes.Count(empty, []byte(`class="button`)); actions != 1 {
					t.Errorf("the empty state has %d actions, want 1", actions)
				}
			}
			for _, wrong := range []string{"<no value>", "ZgotmplZ", " style=", " onclick="} {
				if bytes.Contains(body, []byte(wrong)) {
					t.Errorf("has %q in it", wrong)
				}
			}
		})
	}
}

// storySite is a site that shows stories: no person is signed in, and there
// is nothing behind it.
func storySite(t *testing.T) *site {
	t.Helper()
	s, err := newSite(Config{Site: Site{Address: &url.URL{Scheme: "http", Host: "localhost:8080"}, Timezone: "Europe/Berlin", SignUp: "free"}, Now: func() time.Time { return storyTime }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
