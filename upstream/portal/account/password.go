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
	"unicode/utf8"

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
