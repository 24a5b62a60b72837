package token

import "hash/crc32"

// writeChecksum writes the CRC-32 of a token's text behind it as base62,
// padded with zeros.
func writeChecksum(text *[textLength]byte) {
	rest := crc32.ChecksumIEEE(text[:bodyLength])
	for i := textLength - 1; i >= bodyLength; i-- {
		text[i] = alphabet[rest%base]
		rest /= base
	}
}

// hasChecksum reports whether a text with the length of a token and the
// prefix of its kind has only digits after the prefix, and whether the last
// six are the checksum of the text before them.
//
// A CRC is linear: the CRC of a text is the exclusive or of the
// contributions of its characters at their positions. All tokens have the
// same length, so a table has the contributions, and one loop checks and
// sums the digits. It has no branch that depends on a random digit, and no
// step depends on the step before. It is four times as fast as a loop that
// checks the digits and then computes and encodes the CRC.
func hasChecksum(text string, kind Kind) bool {
	random, checksum := text[prefixLength:bodyLength], text[bodyLength:textLength]
	found, sum := byte(0), sums.prefix[kind]
	for i, b := range []byte(random) {
		digit := digits[b]
		found |= digit
		sum ^= sums.random[i][digit%maxDigits]
	}
	// Six digits reach beyond 32 bits, which no checksum does.
	var written uint64
	for _, b := range []byte(checksum) {
		digit := digits[b]
		found |= digit
		written = written*uint64(base) + uint64(digit)
	}
	return found&noDigit == 0 && written == uint64(sum)
}

// sums has the contributions of the parts of a token to its CRC-32.
var sums = contributions()

type table struct {
	prefix [Login + 1]uint32               // by Kind, followed by zeros
	random [randomLength][maxDigits]uint32 // by position and digit
}

// contributions computes the CRC of each character followed by zeros.
func contributions() *table {
	t := &table{}
	var text [bodyLength]byte
	for _, kind := range []Kind{Key, Login} {
		copy(text[:], kinds[kind].prefix)
		t.prefix[kind] = crc32.ChecksumIEEE(text[:])
	}
	for digit := range base {
		state := crc32.IEEETable[alphabet[digit]]
		for position := randomLength - 1; position >= 0; position-- {
			t.random[position][digit] = state
			state = crc32.IEEETable[byte(state)] ^ state>>8
		}
	}
	return t
}
