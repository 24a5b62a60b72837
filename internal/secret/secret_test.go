package secret

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestRandomSecrets(t *testing.T) {
	t.Parallel()
	bytes := []byte("\x8f\x1b\xa0\x03\xff\x11\x92\x5c\xd4\x07\xe9\x60\x2d\xb8\x43\x7e\xc1\x95\x3a\xfa\x1e\x66\x84\x0d\x59\x72\xab\xcf\x30\x1c\xe2\x4f")
	for secret, want := range map[string]bool{
		strings.Repeat("0123456789abcdef", 4):                                false, // 8 different bytes
		strings.Repeat("0", 64):                                              false,
		"8f1ba003ff11925cd407e9602db8437ec1953afa1e66840d5972abcf301ce24f":   true,
		"8F1BA003FF11925CD407E9602DB8437EC1953AFA1E66840D5972ABCF301CE24F":   true,
		"8f1ba003ff11925cd407e9602db8437ec1953afa1e66840d5972abcf301ce2":     false, // 31 bytes
		"8f1ba003ff11925cd407e9602db8437ec1953afa1e66840d5972abcf301ce24f00": false,
		base64.StdEncoding.EncodeToString(bytes):                             true,
		base64.RawURLEncoding.EncodeToString(bytes):                          true,
		base64.StdEncoding.EncodeToString(bytes[:24]):                        false,
		"correct horse battery staple and some more":                         false,
		"an end-to-end secret of 42 characters, yes":                         false,
		strings.Repeat("password", 8):                                        false,
		strings.Repeat("A", 43):                                              false,
	} {
		if got := IsRandom(secret); got != want {
			t.Errorf("%s: got %t, want %t", secret, got, want)
		}
	}
}
