package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-tollgate/tollgate/internal/contract"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// IdentityConfig makes accounts of the users that another Caddy handler in
// front of the gate has authenticated. It applies to requests without a token
// of the gate.
type IdentityConfig struct {
	// Placeholder holds the id of the user, for example
	// "{http.auth.user.id}" after basic_auth. It must begin with
	// "{http.auth.", "{http.reverse_proxy.header." (what forward_auth
	// received) or "{http.vars.": clients write most others, such as those of
	// the request. Required. A request for which it is empty needs a token.
	Placeholder string `json:"placeholder,omitempty"`

	// Plan is the plan of an account that the gate does not know yet.
	// Default "free".
	Plan string `json:"plan,omitempty"`

	// Prefix is put in front of the id, so that users and other accounts do
	// not mix. If prefix and id are not an account id, which is 1 to 64 of
	// A-Za-z0-9._@-, the account id is a readable part of them and a hash,
	// and the id is the label of the account. Default: none.
	Prefix string `json:"prefix,omitempty"`

	anonymous bool // calls without a credential have the AnonymousAccount
}

var (
	// placeholder is one placeholder of Caddy.
	placeholder = regexp.MustCompile(`^\{[^{}\s]+\}$`)
	// accountText is text that an account id may have, and notAccount a
	// character that it may not have.
	accountText = regexp.MustCompile(`^[A-Za-z0-9._@-]{0,63}$`)
	notAccount  = regexp.MustCompile(`[^A-Za-z0-9._@-]`)
	// hashed is the end of an account id with a hash: 160 bits of SHA-256 in
	// base32.
	hashed = regexp.MustCompile(`--[a-z2-7]{32}$`)
)

// identityPlaceholders are the beginnings of placeholders that clients do not
// write, unless the configuration copies something of the request to them.
var identityPlaceholders = []string{"{http.auth.", "{http.reverse_proxy.header.", "{http.vars."}

func (p *Policy) setIdentity(c *IdentityConfig) error {
	if c == nil {
		return nil
	}
	i := &IdentityConfig{Placeholder: c.Placeholder, Plan: cmp.Or(c.Plan, FreePlan), Prefix: c.Prefix}
	var errs []error
	switch {
	case !placeholder.MatchString(i.Placeholder):
		errs = append(errs, mistake("identity", "%q is not a placeholder such as {http.auth.user.id}", i.Placeholder))
	case strings.HasPrefix(i.Placeholder, "{http.request."):
		errs = append(errs, mistake("identity", "clients write the placeholder %s: use one that an authenticating handler sets, such as {http.auth.user.id}", i.Placeholder))
	case !slices.ContainsFunc(identityPlaceholders, func(prefix string) bool { return strings.HasPrefix(i.Placeholder, prefix) }):
		errs = append(errs, mistake("identity", "%s is not a placeholder of an authenticating handler: use one of {http.auth.…}, {http.reverse_proxy.header.…}, {http.vars.…}", i.Placeholder))
	}
	if c.Plan != "" && p.plans[c.Plan] == nil {
		errs = append(errs, mistake("identity", "unknown plan %q: plans are %s", c.Plan, p.PlanNames()))
	}
	if !accountText.MatchString(i.Prefix) {
		errs = append(errs, mistake("identity", "the prefix %q is not up to 63 of A-Za-z0-9._@-", i.Prefix))
	}
	p.Identity = i
	return errors.Join(errs...)
}

// Account returns the account id of a user. Two users never have the same
// one: texts that are account ids stay as they are, except those that end like
// a hash or have another meaning, and all others end with their hash.
func (i *IdentityConfig) Account(user string) string {
	text := i.Prefix + user
	if contract.ValidAccount(text) && !hashed.MatchString(text) && !(i.anonymous && text == AnonymousAccount) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	hash := "--" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:160/8]))
	return notAccount.ReplaceAllString(text[:min(len(text), contract.MaxAccount-len(hash))], "-") + hash
}

// setWords sets the words of tokens.
func (p *Policy) setWords(c Config) error {
	var errs []error
	add := func(subject, text string) token.Word {
		word := token.Word(text)
		if err := word.Check(); err != nil {
			errs = append(errs, &Error{Subject: subject, Err: err})
		} else if word != "" {
			p.Words = append(p.Words, word)
		}
		return word
	}
	all := add("token_prefix", c.TokenPrefix)
	for _, pc := range c.Plans {
		if plan, word := p.plans[pc.Name], add("plan "+pc.Name+" token_prefix", pc.TokenPrefix); plan != nil {
			plan.Word = cmp.Or(word, all)
		}
	}
	return errors.Join(errs...)
}

// IsOwn tells whether a text is meant to be a token of the gate: it begins like one
// of the configured words, or is one by itself. So a mistyped token is not taken
// for the credentials of the service or of another handler. An imported token can
// begin with a configured word too.
func (p *Policy) IsOwn(text string) bool {
	return slices.ContainsFunc(p.Words, func(w token.Word) bool { return w.Begins(text) }) || token.IsOwn(text)
}

// noTokenHeaders are headers with another meaning.
var noTokenHeaders = []string{
	"Accept", "Authorization", "Connection", "Cookie", "Date", "Expect", "Forwarded", "From", "Host", "Keep-Alive", "Link", "Origin",
	"Pragma", "Priority", "Range", "Referer", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via",
}

// noTokenPrefixes are prefixes of headers with another meaning.
var noTokenPrefixes = []string{"Accept-", "Access-Control-", "Cache-", "Content-", "If-", "Proxy-", "Sec-", "Tollgate-", "X-Forwarded-"}

func (p *Policy) setTokenHeader(name string) error {
	if name == "" {
		return nil
	}
	p.TokenHeader = http.CanonicalHeaderKey(name)
	reserved := slices.Contains(noTokenHeaders, p.TokenHeader) ||
		slices.ContainsFunc(noTokenPrefixes, func(prefix string) bool { return strings.HasPrefix(p.TokenHeader, prefix) })
	switch {
	case !httpguts.ValidHeaderFieldName(name) || strings.ContainsAny(name, "_."):
		return mistake("token_header", "%q is not the name of a header: use letters, digits and dashes, such as X-Api-Key", name)
	case reserved:
		return mistake("token_header", "the header %s has another meaning: use one of its own, such as X-Api-Key", p.TokenHeader)
	}
	return nil
}
