package admin

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxName is the maximum number of characters in the name of a key.
const maxName = 64

// CleanName returns a name or a label as the gate stores it: in Unicode's form
// NFC, and without space around it, which is invisible.
func CleanName(name string) string { return norm.NFC.String(strings.TrimSpace(name)) }

// ValidName reports whether a name has 1 to maxName characters, one of them
// visible, and none that is invisible or changes the direction of the text
// around it: people tell keys apart by their names.
func ValidName(name string) bool {
	isSign := func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) }
	return IsText(name, 1, maxName) && strings.ContainsFunc(name, isSign)
}

// IsText reports whether a text has a number of characters from least to most,
// none of them invisible.
func IsText(text string, least, most int) bool {
	n := utf8.RuneCountInString(text)
	return n >= least && n <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, IsHidden)
}

// brailleBlank is a symbol in Unicode, and looks like a space.
const brailleBlank = '\u2800'

// IsHidden reports whether a character is a control character or invisible.
// The two that join letters or keep them apart are allowed.
func IsHidden(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	if r == zeroWidthNonJoiner || r == zeroWidthJoiner {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) || r == brailleBlank
}
