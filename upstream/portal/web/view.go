package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

//go:embed template/*.html
var templates embed.FS

// page is the input of the frame around every page.
type page struct {
	Title string
	// Section is the current entry of the menu: "settings", "usage", "docs",
	// "operator" or empty.
	// The page loads the style and the script of this name, if they exist.
	Section string
	// Email and Plan are empty without a session, or if they are unknown.
	Email, Plan string
	// Portal is true for a visit by a portal link. Then Email is the label of
	// the account, or its id.
	Portal bool
	// Tab is the current page of Settings.
	Tab string
	// Account is the id of the account, empty without a session. Forms send it:
	// see visitFields.
	Account string
	// Operator is true for a person who may open the operator's pages.
	Operator bool
	// Notice confirms the last action.
	Notice string
	// Updates is the URL of the page's updates, if it updates itself.
	Updates string
	Assets  assetPaths
	Body    any
}

// assetPaths are the paths of the files that a page loads.
type assetPaths struct {
	Styles, Scripts []string
	Icon            string
}

// page returns a page, of the person who is signed in unless v is nil.
func (v *visit) page(title, section string, body any) page {
	p := page{Title: title, Section: section, Body: body}
	if v != nil {
		p.Email, p.Plan, p.Account, p.Notice, p.Portal = string(v.who.Email), v.plan.Name, v.who.ID, v.notice, v.session.Portal
		p.Operator = v.who.Operator
	}
	return p
}

// In returns a page of Settings.
func (p page) In(tab string) page {
	p.Tab = tab
	return p
}

// notices are the confirmations after an action, by the query parameter
// "done". A link cannot show another text.
var notices = map[string]string{
	"revoked":  "The key is revoked. It no longer works.",
	"changed":  "The key is changed. The change applies to its next call.",
	"password": "Your password is changed. Other browsers are signed out.",
	"password-alone": "Your password is changed. Other browsers are signed out. The gate does not answer at the moment: " +
		"older login tokens of the API end as soon as it does.",
	"elsewhere":  "You are signed out everywhere else.",
	"ended":      "That browser is signed out.",
	"unchanged":  "Nothing changed.",
	"draft":      "Nothing was changed yet. The form has what you filled in before.",
	"signed-out": "You are signed out.",
	"operator":   "Sign in again: the operator's pages need a sign-in of the last hour.",
	"signed-up":  "Your account is ready.",
	"closed":     "Your account is closed.",
	"reset":      "Your password is changed. Sign in with the new password.",
	"reset-alone": "Your password is changed. The gate does not answer at the moment: " +
		"older login tokens of the API end as soon as it does.",
}

// views renders pages.
type views struct {
	templates map[string]*template.Template
	assets    *assets
	icon      string // the name of the asset
}

// newViews reads all templates: frame.html is around all pages, part.html has
// parts that several pages share, and each other file is a page. Templates
// get the brand from a function, and whether there are docs of the API.
func newViews(brand Brand, docs bool) (*views, error) {
	assets, err := newAssets(brand.Logo)
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(templates, "template/*.html")
	if err != nil {
		return nil, fmt.Errorf("listing templates: %w", err)
	}
	icon := "icon.svg"
	if brand.Logo.Content != nil {
		icon = brand.Logo.fileName()
	}
	v := &views{
		templates: map[string]*template.Template{}, assets: assets, icon: icon,
	}
	functions := template.FuncMap{
		"brand": func() Brand { return brand },
		"docs":  func() bool { return docs },
		"comma": humanize.Comma, "covers": covers, "limitText": limitText,
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "template/"), ".html")
		if name == "frame" || name == "part" {
			continue
		}
		t, err := template.New(name).Funcs(functions).ParseFS(templates, "template/frame.html", "template/part.html", file)
		if err != nil {
			return nil, fmt.Errorf("parsing page %s: %w", name, err)
		}
		v.templates[name] = t
	}
	return v, nil
}

// show answers with a page. After an error nothing is written yet.
func (v *views) show(w http.ResponseWriter, status int, name string, p page) error {
	p.Assets = v.assets.loads(p.Section, v.icon)
	var body bytes.Buffer
	if err := v.templates[name].ExecuteTemplate(&body, "frame.html", p); err != nil {
		return fmt.Errorf("rendering page %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	// If this fails, the client is gone; ignore the error.
	_, _ = w.Write(body.Bytes())
	return nil
}

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
	l := assetPaths{Icon: a.paths[icon]}
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
