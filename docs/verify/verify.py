"""How a service in Python verifies Tollgate-Assertion, with PyJWT and
cryptography (Debian: python3-jwt, python3-cryptography). Copy it and call
verify for each request.

Run as a program, it reads assertions from standard input, one a line, and
prints what each is:

    python3 verify.py http://127.0.0.1:8081/tollgate/jwks.json api.example.com
"""

import json
import sys
import threading
import time
import urllib.request

import jwt


class Keys(jwt.PyJWKClient):
    """The public keys. PyJWKClient fetches them again for an unknown one and
    when they are five minutes old. This does so at most every 30 seconds,
    also after a failure, and keeps the keys that it has.
    """

    def __init__(self, jwks):
        super().__init__(jwks)
        self.lock = threading.Lock()
        self.next_fetch = time.monotonic()
        self.last = None

    def fetch_data(self):
        with self.lock:
            fetch = time.monotonic() >= self.next_fetch
            if fetch:
                self.next_fetch = time.monotonic() + 30
        if fetch:
            try:
                with urllib.request.urlopen(self.uri, timeout=10) as response:
                    self.last = json.load(response)
                self.jwk_set_cache.put(self.last)
            except (OSError, ValueError) as error:
                print("fetching the public keys:", error, file=sys.stderr)
        if self.last is None:
            raise jwt.PyJWKClientError("there are no public keys yet")
        return self.last


class Verifier:
    def __init__(self, jwks, audience):
        self.keys = Keys(jwks)
        self.audience = audience  # the host that clients ask for, without a port

    def verify(self, assertion, purpose=None):
        """Return the claims of a valid assertion, or raise jwt.PyJWTError.

        sub is the account, then plan, scope (the abilities) and client_id
        (the id of the key). The purpose is None for a call, and "login"
        where your service checks passwords. A portal link, "portal", is for
        the web pages only.
        """
        claims = jwt.decode(
            assertion,
            self.keys.get_signing_key_from_jwt(assertion).key,
            algorithms=["ES256"],  # keeps "none" and HS256 out
            issuer="tollgate",
            audience=self.audience,
            leeway=60,
            options={"require": ["exp", "iat"]},
        )
        if claims.get("purpose") != purpose or ("sub" in claims) == (purpose == "login"):
            raise jwt.InvalidTokenError("a claim is missing, or the assertion is for another purpose")
        return claims


def main():
    verifier = Verifier(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        assertion = line.rstrip("\n")
        try:
            call = verifier.verify(assertion)
            print("call", call["sub"], call["plan"])
        except jwt.PyJWTError as error:
            try:
                verifier.verify(assertion, "login")
                print("login")
            except jwt.PyJWTError:
                print(error, file=sys.stderr)
                print("refused")


if __name__ == "__main__":
    main()
