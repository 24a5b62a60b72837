package assertion

import (
	"encoding/base64"
	"encoding/json"
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

// The expected values were computed by OpenSSL 3.0:
//
//	openssl kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt key:$secret \
//		-kdfopt info:"tollgate assertion v1" HKDF
//	(echo 302e020100300506032b657004220420; echo $seed) | xxd -r -p |
//		openssl pkey -inform DER -pubout -outform DER | tail -c 32 | basenc --base64url
//	printf '{"crv":"Ed25519","kty":"OKP","x":"%s"}' $x | openssl dgst -sha256 -binary | basenc --base64url
func TestDerivation(t *testing.T) {
	t.Parallel()
	key := newKey(t, secret)
	if got, want := hexOf(key.private.Seed()), "48a8d7d7ca8e28f6e481d6ad7034655aac95ce3cf24f7f532aa54d14eeec0dc8"; got != want {
		t.Errorf("got seed %s, want %s", got, want)
	}
	want := PublicKey{
		Type: "OKP", Curve: "Ed25519", X: "bTEFyuLg8mkuU7G2fCQRgru5yKDv6mQMtu6wkWHMb9M",
		ID: "ua25HRe2_dphjMaXfTo_jmxB0dEfQfMq51ahzsDsNow", Algorithm: "EdDSA", Use: "sig",
	}
	if got := NewKeySet(key).Keys[0]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The key and its thumbprint are those of RFC 8037, A.1 to A.3.
func TestThumbprint(t *testing.T) {
	t.Parallel()
	seed, err := base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
	if err != nil {
		t.Fatal(err)
	}
	key, err := fromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	got := NewKeySet(key).Keys[0]
	if got.X != "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" || got.ID != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("got %+v", got)
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
		found := set.Key(key.id)
		if len(found) != 1 || !found[0].IsPublic() || !found[0].Valid() || !key.public().Equal(found[0].Key) || found[0].Algorithm != "EdDSA" {
			t.Errorf("%s: got %+v", key.id, found)
		}
	}
}
