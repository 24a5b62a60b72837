package apierror

import (
	"mime"
	"net/http"
	"slices"
	"strings"
)

// IsJSON reports whether the header announces a body that every recipient
// reads as JSON in UTF-8: it has one Content-Type that says so, and no
// Content-Encoding but identity.
func IsJSON(header http.Header) bool { return IsText(header, jsonType) }

// IsText is IsJSON for other media types whose text is in UTF-8.
func IsText(header http.Header, mediaTypes ...string) bool {
	types := header.Values("Content-Type")
	encoded := func(with string) bool { return with != "" && !strings.EqualFold(with, "identity") }
	if len(types) != 1 || slices.ContainsFunc(header.Values("Content-Encoding"), encoded) {
		return false
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	charset, named := parameters["charset"]
	return err == nil && slices.Contains(mediaTypes, media) && (!named || strings.EqualFold(charset, "utf-8"))
}
