package web

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

// defaultName returns the name of a product without one.
func defaultName(noRates bool) string {
	if noRates {
		return "API"
	}
	return "Currency API"
}

// fileName returns the name of the logo below the static path.
func (l Logo) fileName() string { return "logo" + LogoTypes[l.MediaType] }
