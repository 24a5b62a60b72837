package examples_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLinksInLogs: a portal link opens an account until it was used, and it was
// not if the service is away. So no log of a Caddyfile of the repository may
// have it. Nor may a log have the headers of a request whose host no site has.
// Each Caddyfile with an access log is run.
func TestLinksInLogs(t *testing.T) {
	broken := newServer(t)
	broken.broken.Store(true)
	t.Setenv("TOLLGATE_RATES", "none") // of the service in one process
	var logging []string
	for _, file := range caddyfiles(t) {
		if !hasAccessLog(t, file) {
			continue
		}
		logging = append(logging, filepath.Base(file))
		t.Run(filepath.Base(file), func(t *testing.T) {
			logs := filepath.Join(t.TempDir(), "caddy.log")
			site, _ := load(t, file, freeAddress(t), broken.address, func(config map[string]any) {
				member(config, "logging", "logs", "default")
				for _, log := range member(config, "logging", "logs") {
					log.(map[string]any)["writer"] = map[string]any{"output": "file", "filename": logs}
				}
			})
			const link = "eyJhbGciOiJFUzI1NiJ9"
			for _, query := range []string{"?link=", "?%6cink=", "?a=b&link="} {
				response, err := http.Get(site + "/portal" + query + link)
				must(t, err)
				must(t, response.Body.Close())
			}
			const key = "tgk_of-a-header"
			request, err := http.NewRequest("GET", site+"/portal?link="+link, nil)
			must(t, err)
			request.Host = "nobody.example"
			for _, header := range []string{"X-Api-Key", "Sec-Websocket-Protocol"} {
				request.Header.Set(header, key)
			}
			response, err := http.DefaultClient.Do(request)
			must(t, err)
			must(t, response.Body.Close())
			if response.StatusCode != http.StatusNotFound {
				t.Errorf("a host that no site has gets %d, want 404", response.StatusCode)
			}
			var text string
			eventually(t, "four lines of the access log", func() bool {
				bytes, err := os.ReadFile(logs)
				text = string(bytes)
				return err == nil && strings.Count(text, `"logger":"http.log.access`) == 4
			})
			if strings.Contains(text, key) || strings.Contains(text, link) || !strings.Contains(text, "/portal") {
				t.Errorf("the log has the link or the key, or no request:\n%s", text)
			}
		})
	}
	if !slices.Contains(logging, "Caddyfile") || !slices.Contains(logging, "one-process.Caddyfile") {
		t.Errorf("the Caddyfiles with access logs are %q", logging)
	}
}

// caddyfiles returns all Caddyfiles of the repository.
func caddyfiles(t *testing.T) (files []string) {
	t.Helper()
	must(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"data", "dist", "bin", "node_modules"}, name)):
			return filepath.SkipDir
		case !entry.IsDir() && (name == "Caddyfile" || strings.HasSuffix(name, ".Caddyfile")):
			files = append(files, path)
		}
		return nil
	}))
	return files
}

func hasAccessLog(t *testing.T, file string) bool {
	t.Helper()
	var config struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct{ Logs json.RawMessage }
			}
		}
	}
	must(t, json.Unmarshal(adapt(t, file, strings.TrimPrefix(read(t, file), "\n")), &config)) // one file is a part of another
	for _, server := range config.Apps.HTTP.Servers {
		if server.Logs != nil {
			return true
		}
	}
	return false
}
