package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// libraries are programs that verify assertions as the README of a library shows:
// by algorithm, issuer and audience. They read assertions from standard input, one
// a line, and print the claims. The argument is the set of keys.
var libraries = map[string]struct{ packages, program string }{
	"python-jose": {"jose", python(`
from jose import jwt
def verify(token):
    return jwt.decode(token, keys, algorithms=["ES256"], issuer="tollgate", audience="127.0.0.1")
`)},
	"PyJWT": {"jwt", python(`
import jwt
def verify(token):
    kid = jwt.get_unverified_header(token)["kid"]
    key = next(k for k in jwt.PyJWKSet.from_dict(keys).keys if k.key_id == kid)
    return jwt.decode(token, key.key, algorithms=["ES256"], issuer="tollgate", audience="127.0.0.1")
`)},
	"jwcrypto": {"jwcrypto", python(`
from jwcrypto import jwk, jwt
def verify(token):
    checked = jwt.JWT(jwt=token, key=jwk.JWKSet.from_json(json.dumps(keys)), algs=["ES256"], check_claims={"iss": "tollgate", "aud": "127.0.0.1", "exp": None})
    return json.loads(checked.claims)
`)},
	"jose": {"jose@5.10.0", node(`
import { createLocalJWKSet, jwtVerify } from 'jose'
const verify = async (token) => (await jwtVerify(token, createLocalJWKSet(keys), { algorithms: ['ES256'], issuer: 'tollgate', audience: '127.0.0.1' })).payload
`)},
	"jsonwebtoken": {"jsonwebtoken@9.0.2", node(`
import { createPublicKey } from 'node:crypto'
import jwt from 'jsonwebtoken'
const verify = async (token) => {
	const key = keys.keys.find((k) => k.kid === jwt.decode(token, { complete: true }).header.kid)
	return jwt.verify(token, createPublicKey({ key, format: 'jwk' }), { algorithms: ['ES256'], issuer: 'tollgate', audience: '127.0.0.1' })
}
`)},
}

func python(verify string) string {
	return `
import json, sys
keys = json.loads(sys.argv[1])
` + verify + `
for line in sys.stdin:
    try:
        c = verify(line.rstrip("\n"))
        print(c["sub"], *(c[name] for name in ("plan", "scope", "client_id") if name in c))
    except Exception:
        print("refused")
`
}

func node(verify string) string {
	return verify + `
import { createInterface } from 'node:readline'
const keys = JSON.parse(process.argv[2])
for await (const line of createInterface({ input: process.stdin })) {
	try {
		const c = await verify(line)
		if (!c.sub) throw new Error('no account')
		console.log([c.sub, c.plan, c.scope, c.client_id].filter(Boolean).join(' '))
	} catch {
		console.log('refused')
	}
}
`
}

// verify returns what a library says of each assertion.
func verify(t *testing.T, library, keys string, tokens []string) []string {
	t.Helper()
	l := libraries[library]
	var cmd *exec.Cmd
	if strings.Contains(l.packages, "@") {
		modules, dir := npmtest.Install(t, l.packages), t.TempDir()
		must(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
		must(t, os.WriteFile(filepath.Join(dir, "verify.mjs"), []byte(l.program), 0o600))
		cmd = exec.Command("node", filepath.Join(dir, "verify.mjs"), keys)
	} else {
		python := "python3"
		if exec.Command(python, "-c", "import "+l.packages).Run() != nil {
			python = "/usr/bin/python3" // Debian's has the package
		}
		need(t, "python3-"+l.packages, exec.Command(python, "-c", "import "+l.packages).Run())
		cmd = exec.Command(python, "-c", l.program, keys)
	}
	cmd.Stdin = strings.NewReader(strings.Join(tokens, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != len(tokens) {
		t.Fatalf("%v: %s", err, out)
	}
	return lines
}
