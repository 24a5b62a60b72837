package token

// alphabet is the base62 digits in the order of their values and of ASCII.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const base = uint32(len(alphabet))

// encode writes the big-endian number as base62 digits that fill text,
// padded with zeros. It drops high digits that do not fit, and overwrites
// number.
func encode(text, number []byte) {
	for i := len(text) - 1; i >= 0; i-- {
		rest := uint32(0)
		for j, b := range number {
			rest = rest<<8 | uint32(b)
			number[j] = byte(rest / base)
			rest %= base
		}
		text[i] = alphabet[rest]
	}
}

// maxDigits is the power of two above the digits' values. noDigit is a bit
// that no digit's value has.
const (
	maxDigits = 64
	noDigit   = 0x80
)

// digits has the value of each character, or noDigit.
var digits = func() (values [256]byte) {
	for i := range values {
		values[i] = noDigit
	}
	for value := range base {
		values[alphabet[value]] = byte(value)
	}
	return values
}()
