package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	zxcvbn "github.com/ccojocar/zxcvbn-go"
	"github.com/ccojocar/zxcvbn-go/matching"
	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"
)

const (
	saltLength = 16
	keyLength  = 32

	// busyAfter is the maximum wait for a hash. It is shorter than the
	// patience of people, and long enough for a short burst.
	busyAfter = 2 * time.Second
)

// Cost is what one password costs to hash with argon2id (RFC 9106).
type Cost struct {
	MemoryKiB uint32
	Passes    uint32
	Lanes     uint8
}

// DefaultCost is the first choice of the OWASP password storage cheat
// sheet: 19 MiB, two passes, one lane. It is some 30 ms of one core.
func DefaultCost() Cost { return Cost{MemoryKiB: 19456, Passes: 2, Lanes: 1} }

// Hasher hashes and verifies passwords. Each hash takes Cost.MemoryKiB
// and a core, so their number is limited. Others wait, and fail with ErrBusy
// after a while.
type Hasher struct {
	cost  Cost
	slots chan struct{}
	dummy string
}

// NewHasher returns a Hasher that hashes new passwords at the given cost
// and runs at most parallel hashes at once.
func NewHasher(cost Cost, parallel int) *Hasher {
	h := &Hasher{cost: cost, slots: make(chan struct{}, max(parallel, 1))}
	// No password has this hash, and checking it costs as much as a real
	// one.
	h.dummy = encodeHash(cost, randomBytes(saltLength), randomBytes(keyLength))
	return h
}

// Hash returns the PHC string of the password:
// $argon2id$v=19$m=19456,t=2,p=1$salt$key. CheckPassword comes before it. The
// error is ErrBusy or the context's.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	salt := randomBytes(saltLength)
	key, err := h.derive(ctx, password, h.cost, salt, keyLength)
	if err != nil {
		return "", err
	}
	return encodeHash(h.cost, salt, key), nil
}

// Verify reports whether the password has this hash. An empty hash means an
// unknown account, or one without a password: the work is the same and the
// result is false. The error is ErrBusy, the context's, or about a damaged hash.
func (h *Hasher) Verify(ctx context.Context, hash, password string) (bool, error) {
	known := hash != ""
	if !known {
		hash = h.dummy
	}
	cost, salt, want, err := decodeHash(hash)
	if err != nil {
		return false, fmt.Errorf("reading password hash: %w", err)
	}
	// A password that is too long is wrong. It is cut, not refused, so that
	// the work is the same.
	fits := len(password) <= maxPasswordBytes && utf8.ValidString(password)
	if !fits {
		password = password[:min(len(password), maxPasswordBytes)]
	}
	got, err := h.derive(ctx, password, cost, salt, len(want))
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1 && known && fits, nil
}

// Outdated reports whether a hash has another cost than new ones. Then the
// next login hashes the password again.
func (h *Hasher) Outdated(hash string) bool {
	cost, salt, key, err := decodeHash(hash)
	return err != nil || cost != h.cost || len(salt) != saltLength || len(key) != keyLength
}

// derive waits for a slot and hashes. The password is brought to NFC
// first: the same key presses send composed characters on one system and
// decomposed ones on another.
func (h *Hasher) derive(ctx context.Context, password string, cost Cost, salt []byte, length int) ([]byte, error) {
	patience, cancel := context.WithTimeout(ctx, busyAfter)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
	case <-patience.Done():
		return nil, cmp.Or(ctx.Err(), ErrBusy)
	}
	defer func() { <-h.slots }()
	plain := norm.NFC.Bytes([]byte(password))
	return argon2.IDKey(plain, salt, cost.Passes, cost.MemoryKiB, cost.Lanes, uint32(length)), nil // the length is keyLength or was bounded by decodeHash
}

// NewPassword returns a random password of 128 bits.
func NewPassword() string { return rand.Text() }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	// Read of crypto/rand never fails; it ends the program if the system
	// has no randomness.
	_, _ = rand.Read(b)
	return b
}

func encodeHash(cost Cost, salt, key []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, cost.MemoryKiB, cost.Passes, cost.Lanes, b64(salt), b64(key))
}

var errHash = errors.New("not an argon2id hash of this program")

// decodeHash reads only the format of encodeHash. The bounds stop a damaged or
// forged row from using all memory.
func decodeHash(hash string) (cost Cost, salt, key []byte, err error) {
	fields := strings.Split(hash, "$")
	if len(fields) != 6 {
		return Cost{}, nil, nil, errHash
	}
	var version int
	_, err = fmt.Sscanf(fields[2]+" "+fields[3], "v=%d m=%d,t=%d,p=%d", &version, &cost.MemoryKiB, &cost.Passes, &cost.Lanes)
	salt, badSalt := base64.RawStdEncoding.DecodeString(fields[4])
	key, badKey := base64.RawStdEncoding.DecodeString(fields[5])
	switch {
	case errors.Join(err, badSalt, badKey) != nil, version != argon2.Version, encodeHash(cost, salt, key) != hash,
		cost.MemoryKiB < 8 || cost.MemoryKiB > 1<<20, cost.Passes < 1 || cost.Passes > 64, cost.Lanes < 1 || cost.Lanes > 64,
		len(salt) < 8 || len(salt) > 64, len(key) < 16 || len(key) > 64:
		return Cost{}, nil, nil, errHash
	}
	return cost, salt, key, nil
}

// Bounds of a new password. NIST SP 800-63B-4 (3.1.1.2) asks for at least 15
// characters where a password is the only factor, for room for long phrases,
// for a check against common and guessable passwords, and for no rules of
// composition. The upper bound only keeps the work bounded. The bounds do not
// apply to a login: an older, shorter password still works.
const (
	MinPassword      = 15 // characters
	maxPasswordBytes = 1024
)

// PasswordError says which rule a new password breaks. It wraps ErrPassword.
type PasswordError struct {
	// Advice is for the person who chooses the password: whole sentences,
	// without the password.
	Advice string
}

func (e *PasswordError) Error() string { return ErrPassword.Error() + ": " + e.Advice }

func (*PasswordError) Unwrap() error { return ErrPassword }

const advice = "A phrase of several words is best."

var (
	errShort = &PasswordError{fmt.Sprintf("Use at least %d characters. %s", MinPassword, advice)}
	errLong  = &PasswordError{fmt.Sprintf("Use at most %d bytes.", maxPasswordBytes)}
	errUTF8  = &PasswordError{"Use UTF-8 text."}
	errEmail = &PasswordError{"The password must not be your e-mail address. " + advice}
)

// CheckPassword returns a *PasswordError if a new password of the account with
// this e-mail address is not allowed. The names are other words that an
// attacker would try, such as the name of the product. It does not hash.
func CheckPassword(password string, email Email, names ...string) error {
	switch {
	case len(password) > maxPasswordBytes:
		return errLong
	case !utf8.ValidString(password):
		return errUTF8
	}
	password = norm.NFC.String(password)
	local, _, _ := strings.Cut(string(email), "@")
	switch {
	case email != "" && (strings.EqualFold(password, string(email)) || strings.EqualFold(password, local)):
		return errEmail
	case utf8.RuneCountInString(password) < MinPassword:
		return errShort
	}
	if reason := guessable(password, words(email, names)); reason != "" {
		return &PasswordError{"This password is easy to guess: it contains " + reason + ". " + advice}
	}
	return nil
}

// words returns what an attacker knows about the account, in lower case: the
// names, the e-mail address and their parts.
func words(email Email, names []string) []string {
	known := []string{"tollgate", string(email)}
	for _, name := range append(names, string(email)) {
		parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
		for _, part := range append(parts, strings.Join(parts, "")) {
			if utf8.RuneCountInString(part) > 1 {
				known = append(known, part)
			}
		}
	}
	return known
}

const (
	// minScore is the minimum score of the estimator, of 0 to 4: 3 resists
	// 10^8 guesses against a slow hash.
	minScore = 3

	// minDifferent is the minimum number of different characters. The
	// estimator does not see that a group of characters is repeated.
	minDifferent = 6

	// maxEstimated is how many characters are estimated: the work grows with
	// more than the square of the length. It is some milliseconds for this
	// length, less than that of a hash.
	maxEstimated = 32
)

// reasons are the patterns of the estimator in words.
var reasons = map[string]string{
	"dictionary": "common words or a common password",
	"spatial":    "neighboring keys of a keyboard",
	"repeat":     repeated,
	"sequence":   "a sequence of characters, such as 12345",
	"date":       "a date",
}

const repeated = "repeated text"

// letters has the digits and signs that people write for letters. The
// estimator can try all such replacements itself, but the number of attempts
// grows exponentially.
var letters = strings.NewReplacer("4", "a", "@", "a", "8", "b", "(", "c", "3", "e", "6", "g", "9", "g",
	"1", "i", "!", "i", "|", "l", "0", "o", "$", "s", "5", "s", "+", "t", "7", "t", "2", "z")

// guessable says why a password is easy to guess, or returns the empty text.
func guessable(password string, known []string) string {
	for i := range known {
		known[i] = inASCII(known[i])
	}
	plain := strings.ToLower(withoutAccents(password))
	different := map[rune]bool{}
	for _, r := range plain {
		different[r] = true
	}
	if len(different) < minDifferent {
		return repeated
	}
	for _, text := range []string{plain, letters.Replace(plain)} {
		if reason := weakness(inASCII(text), known); reason != "" {
			return reason
		}
	}
	return ""
}

// withoutAccents decomposes letters and removes their accents.
func withoutAccents(text string) string {
	return strings.Map(func(r rune) rune {
		if '\u0300' <= r && r <= '\u036f' {
			return -1
		}
		return r
	}, norm.NFKD.String(text))
}

// inASCII gives each other character a letter: the estimator counts bytes, and a
// character of other scripts has up to four.
func inASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		return 'a' + r%26
	}, text)
}

// weakness says why the beginning of a text in ASCII is easy to guess, or
// returns the empty text.
func weakness(text string, known []string) string {
	estimate := zxcvbn.PasswordStrength(text[:min(len(text), maxEstimated)], known, matching.FilterL33tMatcher)
	if estimate.Score >= minScore {
		return ""
	}
	reason, longest := repeated, 0
	for _, match := range estimate.MatchSequence {
		found := reasons[match.Pattern]
		if match.DictionaryName == "user_inputs" {
			found = "your e-mail address or the name of this site"
		}
		if found != "" && len(match.Token) > longest {
			reason, longest = found, len(match.Token)
		}
	}
	return reason
}
