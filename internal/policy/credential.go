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
	// received), "{http.vars." or "{http.request.tls.client.": clients write most
	// others, such as those of the request. Those of a client certificate are empty
	// unless client_auth of the site has verified it. Required. A request for which
	// it is empty needs a token.
	Placeholder string `json:"placeholder,omitempty"`

	// Plan is the plan of an account that the gate does not know yet, or a
	// placeholder that names it, with the same beginnings. Default "free".
	Plan string `json:"plan,omitempty"`

	// Plans lists the plans that Plan may name if it is a placeholder. A new user
	// with another plan, or none, gets 403. Default: none.
	Plans []string `json:"plans,omitempty"`

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
var identityPlaceholders = []string{"{http.auth.", "{http.reverse_proxy.header.", "{http.vars.", ClientCertificate}

// ClientCertificate begins the placeholders of a client's certificate, which mean
// nothing unless it was verified.
const ClientCertificate = "{http.request.tls.client."

// certificateText is a placeholder of a certificate that is one text. Caddy writes a
// list of names without names as "[]", which would be one user for many clients, and
// an unknown field is always empty.
var certificateText = regexp.MustCompile(`^\{http\.request\.tls\.client\.(fingerprint|public_key(_sha256)?|issuer|serial|subject|` +
	`certificate_(pem|der_base64)|san\.(dns_names|emails|ips|uris)\.[0-9]+)\}$`)

// OfCertificate tells whether the identity or its plan is in client certificates.
func (i *IdentityConfig) OfCertificate() bool {
	return i != nil && (strings.HasPrefix(i.Placeholder, ClientCertificate) || strings.HasPrefix(i.Plan, ClientCertificate))
}

func (p *Policy) setIdentity(c *IdentityConfig) error {
	if c == nil {
		return nil
	}
	i := &IdentityConfig{Placeholder: c.Placeholder, Plan: cmp.Or(c.Plan, FreePlan), Plans: c.Plans, Prefix: c.Prefix}
	errs := []error{checkPlaceholder(i.Placeholder)}
	plans := i.Plans
	switch named := strings.HasPrefix(c.Plan, "{"); {
	case named && len(plans) == 0:
		errs = append(errs, mistake("identity", "the plan %s is a placeholder: write of and the plans that it may name", c.Plan))
	case named:
		errs = append(errs, checkPlaceholder(c.Plan))
	case len(plans) > 0:
		errs = append(errs, mistake("identity", "the plan %q is no placeholder: write one plan, or a placeholder such as {http.auth.user.plan}", i.Plan))
	case c.Plan != "":
		plans = []string{c.Plan}
	}
	for _, plan := range plans {
		if p.plans[plan] == nil {
			errs = append(errs, mistake("identity", "unknown plan %q: plans are %s", plan, p.PlanNames()))
		}
	}
	if !accountText.MatchString(i.Prefix) {
		errs = append(errs, mistake("identity", "the prefix %q is not up to 63 of A-Za-z0-9._@-", i.Prefix))
	}
	p.Identity = i
	return errors.Join(errs...)
}

// checkPlaceholder refuses a placeholder that clients write.
func checkPlaceholder(text string) error {
	switch {
	case !placeholder.MatchString(text):
		return mistake("identity", "%q is not a placeholder such as {http.auth.user.id}", text)
	case strings.HasPrefix(text, ClientCertificate) && !certificateText.MatchString(text):
		return mistake("identity", "%s is not one text of a client certificate: use one such as {http.request.tls.client.subject} or {http.request.tls.client.san.dns_names.0}", text)
	case slices.ContainsFunc(identityPlaceholders, func(prefix string) bool { return strings.HasPrefix(text, prefix) }):
		return nil
	case strings.HasPrefix(text, "{http.request."):
		return mistake("identity", "clients write the placeholder %s: use one that an authenticating handler sets, such as {http.auth.user.id}", text)
	}
	return mistake("identity", "%s is not a placeholder of an authenticating handler: use one of {http.auth.…}, {http.reverse_proxy.header.…}, {http.vars.…}, {http.request.tls.client.…}", text)
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
