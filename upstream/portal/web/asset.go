package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

const staticPrefix = "/static/"

// assetPolicy is for an SVG image that a browser opens as a page: it runs no
// script and loads nothing. Its own style and embedded images are allowed.
const assetPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"

// assetTypes are the media types of the files in static, by extension.
var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// assets serves the files that pages load. A path has a hash of the content,
// so browsers can cache it forever.
type assets struct {
	paths map[string]string // by name
	files map[string]asset  // by path
}

type asset struct {
	mediaType string
	content   []byte
	tag       string // the ETag
}

// newAssets returns the files of this package, and the logo if it has
// content.
func newAssets(logo Logo) (*assets, error) {
	a := &assets{paths: map[string]string{}, files: map[string]asset{}}
	files, err := fs.Glob(static, "static/*")
	if err != nil {
		return nil, fmt.Errorf("listing assets: %w", err)
	}
	for _, file := range files {
		content, err := static.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading asset: %w", err)
		}
		a.add(path.Base(file), assetTypes[path.Ext(file)], content)
	}
	if logo.Content != nil {
		a.add(logo.fileName(), logo.MediaType, logo.Content)
	}
	return a, nil
}

func (a *assets) add(name, mediaType string, content []byte) {
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:6])
	at := staticPrefix + hash + "/" + name
	a.paths[name], a.files[at] = at, asset{mediaType, content, `"` + hash + `"`}
}

// loads returns what the pages of a section load: base.css and base.js, and
// the files with the name of the section. The operator's pages show parts of the
// others, so they load the files of those too.
func (a *assets) loads(section, icon string) assetPaths {
	l := assetPaths{Icon: a.path(icon)}
	names := []string{"base", section}
	if section == operatorSection {
		names = []string{"base", "settings", "usage", section}
	}
	for _, name := range names {
		if style, found := a.paths[name+".css"]; found {
			l.Styles = append(l.Styles, style)
		}
		if script, found := a.paths[name+".js"]; found {
			l.Scripts = append(l.Scripts, script)
		}
	}
	return l
}

// path returns the path of a file.
func (a *assets) path(name string) string { return a.paths[name] }

// or serves the files, and passes other paths to next.
func (a *assets) or(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.serve(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// serve serves a file, if there is one. For a path with an old hash, from a
// page before an update, it serves the current file without caching.
func (a *assets) serve(w http.ResponseWriter, r *http.Request) bool {
	keep := "public, max-age=31536000, immutable"
	file, found := a.files[r.URL.Path]
	if !found {
		keep = "no-store"
		file, found = a.files[a.paths[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]]
	}
	if !found {
		return false
	}
	h := w.Header()
	h.Set("Cache-Control", keep)
	h.Set("Content-Security-Policy", assetPolicy)
	h.Set("Content-Type", file.mediaType)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("ETag", file.tag)
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.content))
	return true
}
