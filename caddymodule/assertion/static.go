package assertion

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// ProofHeader is the request header of a static proof. The gate sends it
// besides Header where it is configured with "proof static".
const ProofHeader = "Tollgate-Proof"

// Proof returns the static proof: a hexadecimal HMAC-SHA-256 under the
// secret. It is the same for every call and every service, so one service
// or one log that leaks it opens all of them. Compare it in constant time.
func Proof(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("tollgate-proof"))
	return hex.EncodeToString(mac.Sum(nil))
}
