package token

import "hash/crc32"

// seal writes the checksum of a token's text behind it: its CRC-32 as
// base62, padded with zeros.
func seal(text *[textLength]byte) {
	rest := crc32.ChecksumIEEE(text[:bodyLength])
	for i := textLength - 1; i >= bodyLength; i-- {
		text[i] = alphabet[rest%base]
		rest /= base
	}
}

// sealed reports whether a text, which has the length of a token and the
// prefix of its kind, goes on with digits alone, and whether the last
// six are the checksum of all before them.
//
// A CRC is linear: that of a text is the exclusive or of what each of its
// characters contributes at its place. All tokens are equally long, so
// the contributions stand in a table, and one walk over the digits both
// checks and sums them. It has no branch that depends on a digit, for
// they are random and a processor would guess half of them wrong, and no
// step that waits for the one before, as the steps of a CRC do. That
// makes it four times as fast as looking at the digits, computing the
// CRC and writing it down.
func sealed(text string, kind Kind) bool {
	random, checksum := text[prefixLength:bodyLength], text[bodyLength:textLength]
	seen, sum := byte(0), sums.prefix[kind]
	for i, b := range []byte(random) {
		digit := digits[b]
		seen |= digit
		sum ^= sums.random[i][digit%maxDigits]
	}
	// Six digits reach beyond 32 bits, which no checksum does.
	var written uint64
	for _, b := range []byte(checksum) {
		digit := digits[b]
		seen |= digit
		written = written*uint64(base) + uint64(digit)
	}
	return seen&noDigit == 0 && written == uint64(sum)
}

// sums holds what the parts of a token contribute to its CRC-32.
var sums = contributions()

type table struct {
	prefix [Login + 1]uint32               // by Kind, with nothing behind it
	random [randomLength][maxDigits]uint32 // by place and digit
}

// contributions follows each character through the zeros behind it: that
// is what a linear code makes of it.
func contributions() *table {
	t := &table{}
	var text [bodyLength]byte
	for _, kind := range []Kind{Key, Login} {
		prefix, _ := kind.prefix()
		copy(text[:], prefix)
		t.prefix[kind] = crc32.ChecksumIEEE(text[:])
	}
	for digit := range base {
		state := crc32.IEEETable[alphabet[digit]]
		for place := randomLength - 1; place >= 0; place-- {
			t.random[place][digit] = state
			state = crc32.IEEETable[byte(state)] ^ state>>8
		}
	}
	return t
}
