package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// ProofHeader is the request header in which the gate proves to the
// upstream that a call came through it.
const ProofHeader = "Tollgate-Proof"

// Proof returns the value of that header: a hexadecimal HMAC-SHA-256
// under the secret that gate and upstream share. It gives no control
// away, because the secret cannot be computed from it and the control
// API does not accept it. Compare it in constant time.
func Proof(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("tollgate-proof"))
	return hex.EncodeToString(mac.Sum(nil))
}
