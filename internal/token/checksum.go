package token

import "hash/crc32"

// writeChecksum writes the CRC-32 of a token's text behind it as base62,
// padded with zeros.
func writeChecksum(text []byte) {
	body := len(text) - checksumLength
	rest := crc32.ChecksumIEEE(text[:body])
	for i := len(text) - 1; i >= body; i-- {
		text[i] = alphabet[rest%base]
		rest /= base
	}
}

// hasChecksum reports whether the text behind the prefix of a token has only
// digits, and whether the last six are the checksum of the text before them. sum
// is the contribution of the prefix.
//
// A CRC is linear: the CRC of a text is the exclusive or of the
// contributions of its characters at their positions. All tokens have the
// same number of digits, so a table has the contributions, and one loop checks
// and sums the digits. It has no branch that depends on a random digit, and no
// step depends on the step before. It is four times as fast as a loop that
// checks the digits and then computes and encodes the CRC.
func hasChecksum(text string, sum uint32) bool {
	random, checksum := text[:randomLength], text[randomLength:digitsLength]
	found := byte(0)
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
	key, login uint32                          // of the default prefixes
	start      [maxPrefix + 1]uint32           // of the first state of the CRC, by the length of the prefix
	prefix     [maxPrefix][maxDigits]uint32    // by position, as in the longest prefix, and letter
	random     [randomLength][maxDigits]uint32 // by position and digit
}

// contributions computes the CRC of each character followed by zeros.
func contributions() *table {
	t := &table{}
	for value, c := range []byte(alphabet + "_") {
		state := crc32.IEEETable[c]
		for position := maxPrefix + randomLength - 1; position >= 0; position-- {
			if position >= maxPrefix {
				t.random[position-maxPrefix][value] = state
			} else {
				t.prefix[position][value] = state
			}
			state = crc32.IEEETable[byte(state)] ^ state>>8
		}
	}
	var zeros [maxPrefix + randomLength]byte
	for length := range t.start {
		t.start[length] = crc32.ChecksumIEEE(zeros[:length+randomLength])
	}
	t.key, _ = t.ofPrefix(keyPrefix)
	t.login, _ = t.ofPrefix(loginPrefix)
	return t
}

// ofPrefix returns the contribution of a prefix, if it has only letters.
func (t *table) ofPrefix(prefix string) (sum uint32, valid bool) {
	found, sum := byte(0), t.start[len(prefix)]
	positions := t.prefix[maxPrefix-len(prefix):]
	for i := range positions {
		letter := letters[prefix[i]]
		found |= letter
		sum ^= positions[i][letter%maxDigits]
	}
	return sum, found&noDigit == 0
}
