package web

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	const want = ": want 1 to 40 characters, without control characters"
	for text, c := range map[string]struct{ name, fault string }{
		"":                              {"", ""},
		"Weather & More":                {"Weather & More", ""},
		strings.Repeat("ö", 40):         {strings.Repeat("ö", 40), ""},
		strings.Repeat("ö", 41):         {"", `invalid name "` + strings.Repeat("ö", 41) + `"` + want},
		" ":                             {"", `invalid name " "` + want},
		"two\nlines":                    {"", `invalid name "two\nlines"` + want},
		"<script>alert(1)</script>&amp": {"<script>alert(1)</script>&amp", ""}, // the pages escape it
	} {
		name, err := parseName(text)
		if fault := message(err); name != c.name || fault != c.fault {
			t.Errorf("%q: got %q, %q; want %q, %q", text, name, fault, c.name, c.fault)
		}
	}
}

// Threat: a contact that is a script, or that shows a password.
func TestContact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Contact{
		"":                               {},
		"https://example.com/help?a=b#c": {URL: "https://example.com/help?a=b#c", Text: "example.com/help"},
		"Help@Example.com":               {URL: "mailto:help@example.com", Text: "help@example.com"},
		"mailto:help@example.com":        {URL: "mailto:help@example.com", Text: "help@example.com"},
		"a%b?c=d&e+f@example.com":        {URL: "mailto:a%25b%3Fc=d&e+f@example.com", Text: "a%b?c=d&e+f@example.com"},
	} {
		if got, err := parseContact(text); got != want || err != nil {
			t.Errorf("%q: got %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"javascript:alert(1)", "JavaScript:alert(1)//@example.com", "data:text/html,x", "//example.com", "/help", "help", "https://", "https:example.com",
		"https://:443", "https://u:hunter2@example.com", "mailto:help", "mailto:help@example.com?subject=x", "https://exam ple.com", "https://example.com/\n", "+49 221 1234",
		"https://example.com/" + strings.Repeat("x", maxContact),
	} {
		shown := fmt.Sprintf(" %q", text)
		if strings.Contains(text, "@") {
			shown = ""
		}
		want := "invalid contact" + shown + ": want an HTTP or HTTPS URL without a password, or an e-mail address"
		if got, err := parseContact(text); message(err) != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

// The content decides what a logo is, not the name of its file.
func TestLogo(t *testing.T) {
	t.Parallel()
	const svg = `<?xml version="1.0" encoding="UTF-8"?><!-- drawn by hand --><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>`
	webp, err := base64.StdEncoding.DecodeString("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
	if err != nil {
		t.Fatal(err)
	}
	dot := image.NewGray(image.Rect(0, 0, 1, 1))
	var asPNG, asJPEG bytes.Buffer
	if err := png.Encode(&asPNG, dot); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(&asJPEG, dot, nil); err != nil {
		t.Fatal(err)
	}
	full := svg + strings.Repeat(" ", maxLogo-len(svg))
	for name, c := range map[string]struct{ content, mediaType string }{
		"svg":                   {svg, "image/svg+xml"},
		"png":                   {asPNG.String(), "image/png"},
		"jpeg":                  {asJPEG.String(), "image/jpeg"},
		"webp":                  {string(webp), "image/webp"},
		"too long":              {full + " ", ""},
		"html":                  {`<html xmlns="http://www.w3.org/1999/xhtml">` + svg + `</html>`, ""},
		"svg without namespace": {`<svg/>`, ""},
		"two roots":             {`<html/>` + svg[strings.Index(svg, "<svg"):], ""},
	} {
		path := filepath.Join(t.TempDir(), "logo.png")
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		logo, err := readLogo(path)
		if c.mediaType == "" {
			if want := `invalid logo "` + path + `": want an SVG, PNG, WebP or JPEG image of at most 256 KiB`; message(err) != want {
				t.Errorf("%s: got %s, %v", name, logo.MediaType, err)
			}
			continue
		}
		if logo.MediaType != c.mediaType || string(logo.Content) != c.content || err != nil {
			t.Errorf("%s: got %s, %v; want %s", name, logo.MediaType, err, c.mediaType)
		}
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none.svg"), t.TempDir()} {
		if _, err := readLogo(path); !strings.HasPrefix(message(err), "reading logo: ") || !strings.Contains(message(err), path) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// message is what an operator reads, empty without an error.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
