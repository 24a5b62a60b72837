package token

// alphabet are the base62 digits in the order of their values, which is
// also their order in ASCII.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const base = uint32(len(alphabet))

// encode writes the big-endian number as base62 digits that fill all of
// digits, padded with zeros. What is too large for them loses its high
// digits. The number is used up.
func encode(digits, number []byte) {
	for i := len(digits) - 1; i >= 0; i-- {
		rest := uint32(0)
		for j, b := range number {
			rest = rest<<8 | uint32(b)
			number[j] = byte(rest / base)
			rest %= base
		}
		digits[i] = alphabet[rest]
	}
}

// isDigit reports whether b is one of the alphabet. 43 of them are looked
// at per call, hence comparisons instead of a search.
func isDigit(b byte) bool {
	return b-'0' < 10 || b-'A' < 26 || b-'a' < 26
}
