package control

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/keyring"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

var (
	errForeignKeysOff = apierror.New(http.StatusConflict, "foreign_keys_off", "The gate does not accept imported keys: its configuration has no foreign_keys on.")
	errInvalidSHA256  = invalidRequest("The member sha256 is not 64 hexadecimal digits.")
	errNoToken        = invalidRequest("The member sha256 is not the SHA-256 of a token: it is that of an empty text, or one digit repeated.")
	errInvalidPrefix  = invalidRequest(fmt.Sprintf("A prefix has at most %d visible ASCII characters without |.", api.MaxPrefix))
	errUnknownAccount = apierror.New(http.StatusNotFound, "unknown_account", "There is no such account. Set plan to create it.")
	errTokenTaken     = apierror.New(http.StatusConflict, "token_taken", "The token is a live key of another account.")
)

// keyImport is the import of keys whose tokens another system made.
var keyImport = importKind[api.KeyLine]{
	operation: huma.Operation{
		OperationID: "import-keys", Path: "/tollgate/keys", Tags: []string{"keys"},
		Summary: "Import many keys",
		Description: "Each line of the body is one key whose token another system made. The gate gets the hash of the token and never the token. " +
			"A line whose token the account has or had already is skipped: a revoked key does not come back. Refused with 409 foreign_keys_off unless the configuration has foreign_keys on.",
		Parameters: []*huma.Param{{
			Name: dryRunParameter, In: "query", Description: "Checks all lines, and changes nothing.",
			Schema: &huma.Schema{Type: huma.TypeBoolean, Default: false},
		}},
		Errors: []int{http.StatusConflict},
	},
	check:   checkKeyLine,
	account: func(line api.KeyLine) string { return line.Account },
	subject: func(line api.KeyLine) string {
		hash, _ := hashOf(line) // check refuses a line without one
		return string(hash[:])
	},
	newApply: func(with *session, dryRun bool) (func(context.Context, *imported[api.KeyLine]), *apierror.Error) {
		if !with.policy.ForeignKeys {
			return nil, errForeignKeysOff
		}
		return (&keyImporter{dryRun: dryRun}).apply, nil
	},
}

// hashOf returns the hash that stores look the token of a line up by.
func hashOf(line api.KeyLine) (hash token.Hash, valid bool) {
	if n, err := hex.Decode(hash[:], []byte(line.SHA256[:min(len(line.SHA256), hex.EncodedLen(len(hash)))])); err != nil || n != len(hash) {
		return hash, false
	}
	if line.Prefix != "" {
		hash = token.Prefixed(line.Prefix, hash)
	}
	return hash, len(line.SHA256) == hex.EncodedLen(len(hash))
}

// isOfNoToken finds what a script writes in the place of a hash if it has no
// token.
func isOfNoToken(sum string) bool {
	const ofEmptyText = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	return strings.EqualFold(sum, ofEmptyText) || strings.Trim(sum, sum[:1]) == ""
}

// checkKeyLine checks the members of a line that depend on no account.
func checkKeyLine(with *session, line api.KeyLine) error {
	if _, valid := hashOf(line); !valid {
		return errInvalidSHA256
	}
	if isOfNoToken(line.SHA256) {
		return errNoToken
	}
	if len(line.Prefix) > api.MaxPrefix || slices.ContainsFunc([]byte(line.Prefix), func(b byte) bool { return b <= ' ' || b > '~' || b == '|' }) {
		return errInvalidPrefix
	}
	if line.Name != "" && !validName(cleanName(line.Name)) {
		return errInvalidName
	}
	if line.Abilities != nil && len(line.Abilities) == 0 {
		return errNoAbility
	}
	if line.ExpiresAt != nil {
		if _, err := with.checkExpiry(*line.ExpiresAt); err != nil {
			return err
		}
	}
	return with.checkChange(api.AccountChange{Plan: line.Plan})
}

// keyImporter applies an import of keys.
type keyImporter struct {
	dryRun bool
	// holders and tokens are what the lines before would have made in a dry
	// run.
	holders map[string]*holder
	tokens  map[token.Hash]string // the account of each
}

// holder is an account and the lines of a batch for it.
type holder struct {
	store.Account
	ring  keyring.Ring
	err   error // why no key is created
	lines []int // positions in changes
	keys  []importedKey
	// plan is that of an account to create, or nil.
	plan *string
	// read tells that account and ring are read, and exists that there is one.
	read, exists bool
}

// importedKey is a key to create.
type importedKey struct {
	store.Key
	hash     token.Hash
	line     int // position in changes
	creation change
}

// apply imports the keys of a batch: it plans all, creates their accounts,
// records all, and then creates them.
func (k *keyImporter) apply(ctx context.Context, i *imported[api.KeyLine]) {
	holders, errs := k.group(i), make([]error, len(i.changes))
	for _, c := range i.changes {
		i.results[c.result].Status = http.StatusOK
	}
	k.planAll(ctx, i, holders, errs)
	if !k.dryRun {
		i.createHolders(ctx, holders)
		i.recordKeys(ctx, holders)
		i.createKeys(ctx, holders, errs)
	}
	var made []change
	for _, h := range holders {
		for _, key := range h.keys {
			if errs[key.line] == nil {
				i.results[i.changes[key.line].result].Status = http.StatusCreated
				made = append(made, key.creation)
				k.tokens[key.hash] = h.ID
			}
		}
		h.keys = nil
	}
	for n, err := range errs {
		switch {
		case errors.Is(err, store.ErrExists):
		case err != nil:
			i.fail(ctx, i.changes[n], err)
		default:
			i.calls.Worked()
		}
	}
	if !k.dryRun {
		i.tell(ctx, made...)
	}
}

// group returns the accounts of a batch with their lines. A dry run continues
// with the accounts of the batches before.
func (k *keyImporter) group(i *imported[api.KeyLine]) (holders []*holder) {
	if k.holders == nil || !k.dryRun {
		k.holders, k.tokens = map[string]*holder{}, map[token.Hash]string{}
	}
	for n, c := range i.changes {
		h := k.holders[c.line.Account]
		if h == nil {
			h = &holder{Account: store.Account{ID: c.line.Account}}
			k.holders[c.line.Account] = h
		}
		if len(h.lines) == 0 {
			holders = append(holders, h)
		}
		h.lines = append(h.lines, n)
	}
	return holders
}

// accountsAtOnce is how many accounts an import reads at once.
const accountsAtOnce = 64

// planAll decides about all lines.
func (k *keyImporter) planAll(ctx context.Context, i *imported[api.KeyLine], holders []*holder, errs []error) {
	var all errgroup.Group
	all.SetLimit(accountsAtOnce)
	for _, h := range holders {
		all.Go(func() error {
			k.plan(ctx, i, h, errs)
			return nil
		})
	}
	_ = all.Wait() // no function fails
}

// plan reads an account and decides about its lines.
func (k *keyImporter) plan(ctx context.Context, i *imported[api.KeyLine], h *holder, errs []error) {
	err := h.readOnce(ctx, i.session)
	for _, n := range h.lines {
		errs[n] = err
		if err == nil {
			errs[n] = k.planKey(ctx, i.session, h, i.changes[n].line, n)
		}
	}
	h.lines = nil
}

func (h *holder) readOnce(ctx context.Context, with *session) error {
	if h.read {
		return nil
	}
	account, err := with.store.Account(ctx, h.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		h.read = true
		return nil
	case err != nil:
		return err
	}
	h.Account, h.exists = account, true
	h.ring, err = with.ring(ctx, h.ID)
	h.read = err == nil
	return err
}

// planKey adds the key of a line to the keys to create, unless the account has
// or had it.
func (k *keyImporter) planKey(ctx context.Context, with *session, h *holder, line api.KeyLine, n int) error {
	hash, _ := hashOf(line)
	key := store.Key{
		ID: token.IDOf(h.ID, hash), Account: h.ID, Kind: token.Key, Name: cleanName(line.Name),
		Hint: token.Hint(""), CreatedAt: round(with.now),
	}
	if h.ring.Find(key.ID) != nil {
		return nil
	}
	if other, err := k.liveIn(ctx, with, hash); err != nil || other == h.ID {
		return err
	} else if other != "" {
		return errTokenTaken
	}
	account := h.Account
	if !h.exists {
		if line.Plan == nil {
			return errUnknownAccount
		}
		account.Plan = *line.Plan
	}
	plan, err := with.entitled(account)
	if err != nil {
		return err
	}
	if key.Abilities, err = grantable(account.Plan, plan.Abilities, line.Abilities); err != nil {
		return err
	}
	if key.ExpiresAt, err = with.expiry(line.ExpiresAt, "", key.CreatedAt); err != nil {
		return err
	}
	if key.Name == "" {
		key.Name = freeName(h.ring, with.now)
	}
	if err := h.ring.Create(key); err != nil {
		return err
	}
	if !h.exists {
		h.Account, h.plan, h.exists = account, line.Plan, true
	}
	h.keys = append(h.keys, importedKey{Key: key, hash: hash, line: n})
	return nil
}

// liveIn returns the account in which a token is a live key, or "".
func (k *keyImporter) liveIn(ctx context.Context, with *session, hash token.Hash) (string, error) {
	if account := k.tokens[hash]; account != "" {
		return account, nil
	}
	account, err := with.store.Holder(ctx, hash, with.now)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return account, err
}

// freeName returns a name that no live key has.
func freeName(ring keyring.Ring, now time.Time) string {
	const name = "imported"
	free := name
	for n := 2; slices.ContainsFunc(ring, func(key *store.Key) bool { return key.Kind == token.Key && key.Live(now) && key.Name == free }); n++ {
		free = fmt.Sprintf("%s %d", name, n)
	}
	return free
}

// createHolders creates the accounts that do not exist.
func (i *imported[L]) createHolders(ctx context.Context, holders []*holder) {
	var missing []*holder
	var ids []string
	for _, h := range holders {
		if h.plan != nil {
			missing, ids = append(missing, h), append(ids, h.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	_, errs := i.changeAccounts(ctx, ids, func(n int, account *store.Account, exists bool) (change, error) {
		if exists { // created meanwhile
			return change{}, nil
		}
		before := i.apply(api.AccountChange{Plan: missing[n].plan}, account, exists)
		return accountChange(before, *account), nil
	})
	for n, h := range missing {
		h.err = errs[n]
	}
}

// recordKeys records the creations of all keys.
func (i *imported[L]) recordKeys(ctx context.Context, holders []*holder) {
	var creations []change
	for _, h := range holders {
		for n := range h.keys {
			key := &h.keys[n]
			key.creation = keyChange(api.KeyCreate, "", event.KeyCreated, nil, &key.Key)
			if h.err == nil {
				creations = append(creations, key.creation)
			}
		}
	}
	if err := i.record(ctx, creations...); err != nil {
		for _, h := range holders {
			h.err = cmp.Or(h.err, err)
		}
	}
}

// createKeys creates the keys, and sets the errors of their lines.
func (i *imported[L]) createKeys(ctx context.Context, holders []*holder, errs []error) {
	var keys []store.StoredKey
	var lines []int
	for _, h := range holders {
		for _, key := range h.keys {
			if errs[key.line] = h.err; h.err == nil {
				keys, lines = append(keys, store.StoredKey{Key: key.Key, Hash: key.hash}), append(lines, key.line)
			}
		}
	}
	for n, err := range i.store.CreateKeys(ctx, keys) {
		errs[lines[n]] = err
	}
}
