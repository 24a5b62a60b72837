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

// allDigits reports whether text is made of the alphabet alone. It looks
// bytes up in a bit set, without branches: the digits of a token are
// random, so that a processor would guess half of them wrong.
func allDigits(text string) bool {
	const (
		numbers = (1<<10 - 1) << '0'
		letters = (1<<26-1)<<('A'-64) | (1<<26-1)<<('a'-64)
	)
	set := [4]uint64{numbers, letters, 0, 0}
	all := uint64(1)
	for i := range len(text) {
		all &= set[text[i]>>6] >> (text[i] & 63)
	}
	return all == 1
}
