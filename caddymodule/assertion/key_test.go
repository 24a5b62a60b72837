package assertion

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

const secret = "0123456789abcdef0123456789abcdef"

func newKey(t testing.TB, secret string) *Key {
	t.Helper()
	key, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// The expected values were computed by OpenSSL 3.0 and Python:
//
//	seed=$(openssl kdf -keylen 48 -kdfopt digest:SHA256 -kdfopt key:$secret \
//		-kdfopt info:"tollgate assertion v2" HKDF | tr -d :)
//	d=$(python3 -c "print('%064x' % (0x$seed % (0x$order - 1) + 1))")
//	echo 30310201010420 $d a00a06082a8648ce3d030107 | xxd -r -p |
//		openssl ec -inform DER -pubout -outform DER | tail -c 64 # x, then y
//	printf '{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}' $x $y | openssl dgst -sha256 -binary | basenc --base64url
func TestDerivation(t *testing.T) {
	t.Parallel()
	key := newKey(t, secret)
	if got, want := scalarOf(t, key), "130942b5a00d4b1157b70ab05a3bc3964eb8f6a089b7472d74fef39de80b6b41"; got != want {
		t.Errorf("got the private key %s, want %s", got, want)
	}
	want := PublicKey{
		Type: "EC", Curve: "P-256", X: "ywu8uCSHVyv-MnHBs8FrPWYOlPHfxWO-DOyuRbIN7_s", Y: "n13ZIcNbC-2uiq4vU-luvg1uODBQP3fDBGB6iz2P2gs",
		ID: "w90pciOIF4eLOo0i6SI8u_GQZnyX088gD_xrr_lZnAk", Algorithm: "ES256", Use: "sig",
	}
	if got := NewKeySet(key).Keys[0]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func scalarOf(t *testing.T, key *Key) string {
	t.Helper()
	scalar, err := key.private.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return hexOf(scalar)
}

// A seed is reduced to 1 up to the order of the curve less 1, and no seed is
// refused.
func TestSeeds(t *testing.T) {
	t.Parallel()
	one := strings.Repeat("0", 63) + "1"
	for seed, want := range map[string]string{
		"00": one,
		"01": strings.Repeat("0", 63) + "2",
		"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc63254f": "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550", // order less 2
		"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550": one,
		"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551": strings.Repeat("0", 63) + "2",
		strings.Repeat("ff", seedSize):                                     "431905529c0166ce652e96b7ccca0a9a679b73e29ad16947f01cf012fc632550",
	} {
		bytes, err := hex.DecodeString(seed)
		if err != nil {
			t.Fatal(err)
		}
		key, err := fromSeed(bytes)
		if err != nil {
			t.Fatalf("%s: %v", seed, err)
		}
		if got := scalarOf(t, key); got != want {
			t.Errorf("%s: got %s, want %s", seed, got, want)
		}
	}
}

// Threat: a coordinate that begins with zeros is written shorter, and other
// libraries refuse the key or name it otherwise (RFC 7518, 6.2.1.2).
func TestLeadingZeros(t *testing.T) {
	t.Parallel()
	var short [3]int // private keys, x and y that begin with a zero
	for i := range 1500 {
		key := newKey(t, secret+strconv.Itoa(i))
		public := NewKeySet(key).Keys[0]
		text, err := json.Marshal(public)
		if err != nil {
			t.Fatal(err)
		}
		var read jose.JSONWebKey
		if err := json.Unmarshal(text, &read); err != nil || !key.private.PublicKey.Equal(read.Key) {
			t.Fatalf("a JOSE library reads %s as %v, %v", text, read.Key, err)
		}
		if decoded, err := public.decode(); err != nil || !key.private.PublicKey.Equal(decoded) {
			t.Fatalf("a verifier reads %s as %v, %v", text, decoded, err)
		}
		point, err := key.private.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		for i, begins := range [3]bool{strings.HasPrefix(scalarOf(t, key), "00"), point[1] == 0, point[1+keySize] == 0} {
			if begins {
				short[i]++
			}
		}
	}
	if slices.Min(short[:]) == 0 {
		t.Errorf("the test saw %d, want some of each", short)
	}
}

// A JOSE library reads the set, several keys in it, and finds no private
// part.
func TestKeySet(t *testing.T) {
	t.Parallel()
	keys := []*Key{newKey(t, secret), newKey(t, secret+"2")}
	text, err := json.Marshal(NewKeySet(keys...))
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		found := set.Key(key.public.ID)
		if len(found) != 1 || !found[0].IsPublic() || !found[0].Valid() || !key.private.PublicKey.Equal(found[0].Key) || found[0].Algorithm != "ES256" {
			t.Errorf("%s: got %+v", key.public.ID, found)
		}
	}
}
