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

// digits has the value of each character of a number, or noDigit. letters has that
// of each character of a prefix: "_" is behind the digits, and there are no capitals.
var digits, letters = valuesOf(alphabet), func() [256]byte {
	values := valuesOf(alphabet + "_")
	for c := 'A'; c <= 'Z'; c++ {
		values[c] = noDigit
	}
	return values
}()

func valuesOf(characters string) (values [256]byte) {
	for i := range values {
		values[i] = noDigit
	}
	for value := range len(characters) {
		values[characters[value]] = byte(value)
	}
	return values
}
