package enrol

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

var (
	errForeignKeysOff = apierror.New(http.StatusConflict, "foreign_keys_off", "The gate does not accept imported keys: its configuration has no foreign_keys on.")
	errInvalidSHA256  = admin.InvalidRequest("The member sha256 is not 64 hexadecimal digits.")
	errNoToken        = admin.InvalidRequest("The member sha256 is not the SHA-256 of a token: it is that of an empty text, or one digit repeated.")
	errInvalidPrefix  = admin.InvalidRequest(fmt.Sprintf("A prefix has at most %d visible ASCII characters without |.", api.MaxPrefix))
	errUnknownAccount = apierror.New(http.StatusNotFound, "unknown_account", "There is no such account. Set plan to create it.")
)

// keyImport is the import of keys whose tokens another system made.
var keyImport = importKind[api.KeyLine]{
	row: api.ImportKeys,
	parameters: []*huma.Param{{
		Name: "dry_run", In: "query", Description: "Checks all lines, and changes nothing.",
		Schema: &huma.Schema{Type: huma.TypeBoolean, Default: false},
	}},
	check:   checkKeyLine,
	account: func(line api.KeyLine) string { return line.Account },
	subject: func(line api.KeyLine) string {
		hash, _ := hashOf(line) // check refuses a line without one
		return string(hash[:])
	},
	refuse: func(with *admin.Session) *apierror.Error {
		if !with.Policy.ForeignKeys {
			return errForeignKeysOff
		}
		return nil
	},
	apply: importKeys,
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

// checkKeyLine checks the members of a line that depend on no account.
func checkKeyLine(with *admin.Session, line api.KeyLine) error {
	if _, valid := hashOf(line); !valid {
		return errInvalidSHA256
	}
	var sum token.Hash
	if err := sum.UnmarshalText([]byte(line.SHA256)); err != nil || token.IsOfNoToken(sum) {
		return errNoToken
	}
	if len(line.Prefix) > api.MaxPrefix || slices.ContainsFunc([]byte(line.Prefix), func(b byte) bool { return b <= ' ' || b > '~' || b == '|' }) {
		return errInvalidPrefix
	}
	if line.Name != "" && !admin.ValidName(admin.CleanName(line.Name)) {
		return admin.ErrInvalidName
	}
	if line.Abilities != nil && len(line.Abilities) == 0 {
		return admin.ErrNoAbility
	}
	if line.ExpiresAt != nil {
		if _, err := with.CheckExpiry(*line.ExpiresAt); err != nil {
			return err
		}
	}
	return with.CheckChange(api.AccountChange{Plan: line.Plan, BillingDay: line.BillingDay})
}

// draft is a copy of the document of an account, with the keys of the lines
// before. A dry run keeps it for the next batches.
type draft struct {
	*book.Account // nil before it is read
	id            string
	lines         []int // of the batch
	keys          []importedKey
	create        api.AccountChange // of an account to create: with a plan
	err           error             // why the account is not created
}

// importedKey is the key of a line of the batch.
type importedKey struct {
	book.Key
	line int
}

// importKeys decides about each line of a batch with drafts. Then it creates the
// accounts that are missing, and then the keys: a token can only become a key
// of an account that exists. A dry run only decides.
func importKeys(ctx context.Context, i *imported[api.KeyLine]) {
	drafts, errs := group(i), make([]error, len(i.batch))
	var deciding errgroup.Group
	deciding.SetLimit(accountsAtOnce)
	for _, d := range drafts {
		deciding.Go(func() error {
			decide(ctx, i, d, errs)
			return nil
		})
	}
	_ = deciding.Wait() // no function fails
	if i.dryRun {
		for _, d := range drafts {
			for _, key := range d.keys {
				i.planned[string(key.Hash[:])] = d.id
			}
			d.lines, d.keys = nil, nil
		}
	} else {
		i.createAccounts(ctx, drafts)
		i.createKeys(ctx, drafts, errs)
	}
	for n, err := range errs {
		if errors.Is(err, store.ErrExists) {
			i.finish(ctx, n, http.StatusOK, nil)
		} else {
			i.finish(ctx, n, http.StatusCreated, err)
		}
	}
}

// group returns the accounts of a batch with their lines.
func group(i *imported[api.KeyLine]) (drafts []*draft) {
	if !i.dryRun || i.drafts == nil {
		i.drafts = map[string]*draft{}
	}
	for n, c := range i.batch {
		d := i.drafts[c.line.Account]
		if d == nil {
			d = &draft{id: c.line.Account}
			i.drafts[d.id] = d
		}
		if len(d.lines) == 0 {
			drafts = append(drafts, d)
		}
		d.lines = append(d.lines, n)
	}
	return drafts
}

// accountsAtOnce is how many accounts an import reads at once.
const accountsAtOnce = 64

// decide sets the errors of the lines of an account, nil for those whose key
// is new.
func decide(ctx context.Context, i *imported[api.KeyLine], d *draft, errs []error) {
	var err error
	if d.Account == nil {
		if d.Account, err = i.Book.Get(ctx, d.id); errors.Is(err, store.ErrNotFound) {
			d.Account, err = &book.Account{Account: store.Account{ID: d.id}}, nil
		}
	}
	for _, n := range d.lines {
		if errs[n] = err; err == nil {
			errs[n] = addKey(ctx, i, d, n)
		}
	}
}

// addKey adds the key of a line to a draft. The error is store.ErrExists if the
// account has or had the key.
func addKey(ctx context.Context, i *imported[api.KeyLine], d *draft, n int) error {
	with, line := i.Session, i.batch[n].line
	hash, _ := hashOf(line)
	key := book.Key{Hash: hash, Key: store.Key{
		ID: token.IDOf(d.ID, hash), Account: d.ID, Kind: token.Key, Name: admin.CleanName(line.Name),
		Hint: token.Hint(""), CreatedAt: admin.Round(with.Now),
	}}
	if err := i.checkNew(ctx, d, key); err != nil {
		return err
	}
	a := d.Account
	if !a.Exists {
		if line.Plan == nil {
			return errUnknownAccount
		}
		a = &book.Account{Account: store.Account{ID: a.ID, Plan: *line.Plan}, Exists: true}
	}
	plan, err := with.Entitled(&a.Account)
	if err != nil {
		return err
	}
	if key.Abilities, err = admin.Grantable(a.Plan, plan.Abilities, line.Abilities); err != nil {
		return err
	}
	if key.ExpiresAt, err = with.Expiry(line.ExpiresAt, ""); err != nil {
		return err
	}
	if key.Name == "" {
		key.Name = freeName(a, with.Now)
	}
	if err := a.Import(key); err != nil {
		return err
	}
	if a != d.Account {
		d.Account, d.create = a, api.AccountChange{Plan: line.Plan, BillingDay: line.BillingDay}
	}
	d.keys = append(d.keys, importedKey{key, n})
	return nil
}

// checkNew checks that the account does not have the key, and that no other
// account has its token.
func (i *imported[L]) checkNew(ctx context.Context, d *draft, key book.Key) error {
	known := d.Find(key.ID) != nil
	holder := i.planned[string(key.Hash[:])]
	known = known || holder == d.ID
	var err error
	if i.dryRun && !known { // otherwise the step checks it
		known, err = i.Book.WasImported(ctx, d.ID, key.ID)
	}
	if err != nil {
		return err
	}
	if known {
		return store.ErrExists
	}
	if holder == "" {
		holder, err = i.Book.Holder(ctx, key.Hash, i.Now)
	}
	switch {
	case errors.Is(err, store.ErrNotFound), holder == d.ID:
		return nil
	case err != nil:
		return err
	}
	return admin.ErrTokenTaken
}

// freeName returns a name that no live key has.
func freeName(a *book.Account, now time.Time) string {
	const name = "imported"
	free := name
	for n := 2; slices.ContainsFunc(a.Keys, func(key *book.Key) bool { return key.Kind == token.Key && key.Live(now) && key.Name == free }); n++ {
		free = fmt.Sprintf("%s %d", name, n)
	}
	return free
}

// createAccounts creates the accounts that do not exist.
func (i *imported[L]) createAccounts(ctx context.Context, drafts []*draft) {
	var missing []*draft
	var ids []string
	for _, d := range drafts {
		if d.create.Plan != nil {
			missing, ids = append(missing, d), append(ids, d.ID)
		}
	}
	errs := i.ChangeAll(ctx, ids, func(n int, a *book.Account) error {
		if !a.Exists {
			i.SetAccount(ctx, a, missing[n].create)
		}
		return nil
	})
	for n, d := range missing {
		d.err = errs[n]
	}
}

// createKeys creates the keys, and sets the errors of their lines.
func (i *imported[L]) createKeys(ctx context.Context, drafts []*draft, errs []error) {
	var keys []book.Key
	var lines []int
	for _, d := range drafts {
		for _, key := range d.keys {
			if errs[key.line] = d.err; d.err == nil {
				keys, lines = append(keys, key.Key), append(lines, key.line)
			}
		}
	}
	failed := i.Book.ImportKeys(ctx, i.Now, keys, func(a *book.Account, key *book.Key) {
		i.RecordKey(ctx, a, api.KeyCreate, nil, key.Key)
	})
	for n, err := range failed {
		errs[lines[n]] = err
	}
	if slices.Contains(failed, nil) {
		i.Follow()
	}
}
