package web

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/upstream/option"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
)

// Brand is what the pages call the product, and where they send people who
// need help.
type Brand struct {
	// Name is the name of the product. Default: "Currency API", or "API"
	// with NoRates.
	Name string
	// Logo is beside the name, and the icon of the pages. Default: the logo
	// of this repository.
	Logo Logo
	// Contact is where people reach the operator. Default: none, so the
	// pages mention the operator without a link.
	Contact Contact
}

// Logo is an image. Its media type is one of LogoTypes.
type Logo struct {
	MediaType string
	Content   []byte
}

// LogoTypes are the extensions of logos, by media type.
var LogoTypes = map[string]string{
	"image/svg+xml": ".svg", "image/png": ".png", "image/webp": ".webp", "image/jpeg": ".jpg",
}

// Contact is a link to the operator. URL is an HTTP, HTTPS or mailto URL, and
// Text is what people read.
type Contact struct{ URL, Text string }

// fileName returns the name of the logo below the static path.
func (l Logo) fileName() string { return "logo" + LogoTypes[l.MediaType] }

// Bounds of the parts of a brand, in characters and in bytes.
const (
	maxName    = 40
	maxLogo    = 256 << 10
	maxContact = 2000
)

// NewBrand reads the name, the file of the logo and the contact of a site. Empty
// ones are the default.
func NewBrand(name, logo, contact string) (b Brand, err error) {
	if b.Name, err = parseName(name); err != nil {
		return Brand{}, err
	}
	if b.Contact, err = parseContact(contact); err != nil {
		return Brand{}, err
	}
	b.Logo, err = readLogo(logo)
	return b, err
}

func parseName(text string) (string, error) {
	name := strings.TrimSpace(text)
	if text != "" && name == "" || utf8.RuneCountInString(name) > maxName ||
		!utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", &option.Error{Option: "name", Value: text, Want: "1 to 40 characters, without control characters"}
	}
	return name, nil
}

// parseContact accepts no other scheme than HTTP, HTTPS and mailto: a link
// "javascript:" would run in the pages.
func parseContact(text string) (Contact, error) {
	if text == "" {
		return Contact{}, nil
	}
	if email, err := account.ParseEmail(strings.TrimPrefix(text, "mailto:")); err == nil {
		link := url.URL{Scheme: "mailto", Opaque: url.PathEscape(string(email))}
		return Contact{URL: link.String(), Text: string(email)}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || len(text) > maxContact {
		shown := text
		if strings.Contains(text, "@") { // the value may have a password
			shown = ""
		}
		return Contact{}, &option.Error{Option: "contact", Value: shown, Want: "an HTTP or HTTPS URL without a password, or an e-mail address"}
	}
	return Contact{URL: u.String(), Text: strings.TrimSuffix(u.Host+u.EscapedPath(), "/")}, nil
}

// readLogo reads an image. An empty path has none.
func readLogo(path string) (Logo, error) {
	if path == "" {
		return Logo{}, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return Logo{}, fmt.Errorf("reading logo: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxLogo+1))
	if err != nil {
		return Logo{}, fmt.Errorf("reading logo: %w", err)
	}
	mediaType := imageType(content)
	if len(content) > maxLogo || LogoTypes[mediaType] == "" {
		return Logo{}, &option.Error{Option: "logo", Value: path, Want: "an SVG, PNG, WebP or JPEG image of at most 256 KiB"}
	}
	return Logo{MediaType: mediaType, Content: content}, nil
}

// imageType returns the media type of a file by its content.
func imageType(content []byte) string {
	if isSVG(content) {
		return "image/svg+xml"
	}
	return http.DetectContentType(content)
}

// entity is the declaration of an entity in a document type. Some drawing
// programs declare the namespaces of an SVG file this way.
var entity = regexp.MustCompile(`<!ENTITY\s+(\S+)\s+"([^"]*)"`)

// isSVG tells whether a file is well-formed XML whose root is svg. Browsers
// draw no other.
func isSVG(content []byte) bool {
	parts := xml.NewDecoder(bytes.NewReader(content))
	parts.Entity = map[string]string{}
	var root xml.Name
	for {
		part, err := parts.Token()
		if err != nil {
			return errors.Is(err, io.EOF) && root == xml.Name{Space: "http://www.w3.org/2000/svg", Local: "svg"}
		}
		switch part := part.(type) {
		case xml.Directive:
			for _, declared := range entity.FindAllSubmatch(part, -1) {
				parts.Entity[string(declared[1])] = string(declared[2])
			}
		case xml.StartElement:
			if root.Local == "" {
				root = part.Name
			}
		}
	}
}
