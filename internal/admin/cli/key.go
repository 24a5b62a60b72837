package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

var (
	errNoTTL     = misuse.Errorf("--ttl has no value; omit it for a key that never expires")
	errEmptyTTL  = misuse.Errorf("--ttl has no value; use never for a key that never expires")
	errNoOverlap = misuse.Errorf("--overlap has no value; omit it to end the old key at once")
)

// The values of flags that remove what a key has.
const (
	Never    = "never" // --ttl
	noLimits = "none"  // --limit
	anywhere = "any"   // --from
)

func (t *Tool) createKey() *cobra.Command {
	var request api.KeyRequest
	var limits []string
	c := &cobra.Command{
		Use: "create <account>", SuggestFor: []string{"add", "make"}, Short: "Creates a key and shows its token once", Args: misuse.Arguments(1),
		ValidArgsFunction: t.Complete(Accounts),
		Example:           `caddy tollgate key create acc_1 --name ci --ability convert --ttl 720h --limit "convert 100 day" --from 203.0.113.0/24`,
	}
	c.Flags().StringVar(&request.Name, "name", "", "The key's name, unique among the account's live keys")
	c.Flags().StringArrayVar(&request.Abilities, "ability", nil, "What the key may do; repeatable (default: all abilities of the plan)")
	c.Flags().StringVar(&request.TTL, "ttl", "", "The time until the key expires, for example 720h or 30d (default: never)")
	c.Flags().StringArrayVar(&limits, "limit", nil, `A limit of the key itself, for example "convert 100 day"; repeatable (default period: day)`)
	c.Flags().StringArrayVar(&request.Addresses, "from", nil, "A network or address that calls may come from, for example 203.0.113.0/24; repeatable (default: all)")
	t.CompleteFlag(c, "ability", abilities)
	// The name of the flag is known, so this cannot fail.
	_ = c.MarkFlagRequired("name")
	c.RunE = Query(t, func(ctx context.Context, gate *client.Client, args []string) (api.IssuedKey, error) {
		// A script with an empty variable does not mean forever.
		if c.Flags().Changed("ttl") && request.TTL == "" {
			return api.IssuedKey{}, errNoTTL
		}
		if c.Flags().Changed("ttl") {
			if err := checkDuration("ttl", request.TTL); err != nil {
				return api.IssuedKey{}, err
			}
		}
		var err error
		if request.Limits, err = parseLimits(limits); err != nil {
			return api.IssuedKey{}, err
		}
		account, err := AccountOf(ctx, gate, args[0])
		if err != nil {
			return api.IssuedKey{}, err
		}
		return gate.CreateKey(ctx, account, request)
	}, showIssued)
	return c
}

// keyFlags are the flags of a change of a key.
type keyFlags struct {
	name, ttl                    string
	abilities, limits, addresses []string
}

func (t *Tool) changeKey() *cobra.Command {
	var flags keyFlags
	c := &cobra.Command{
		Use: "set <account> <key-id>|<name>", Short: "Changes a key; its token stays the same", Args: misuse.Arguments(2),
		ValidArgsFunction: t.Complete(Accounts, Keys),
		Long: "Changes only what the flags set. The flags that are repeatable replace all abilities, limits or addresses of the key. " +
			"The change applies to the key's next call.",
		Example: `caddy tollgate key set acc_1 key_4kdm2Zq0yT1RbXc7 --limit "convert 100 day" --from 203.0.113.0/24`,
	}
	c.Flags().StringVar(&flags.name, "name", "", "The key's name, unique among the account's live keys")
	c.Flags().StringArrayVar(&flags.abilities, "ability", nil, "What the key may do; repeatable")
	c.Flags().StringVar(&flags.ttl, "ttl", "", "The time from now until the key expires, for example 720h or 30d, or never")
	c.Flags().StringArrayVar(&flags.limits, "limit", nil, `A limit of the key itself, for example "convert 100 day"; repeatable; none removes all`)
	c.Flags().StringArrayVar(&flags.addresses, "from", nil, "A network or address that calls may come from; repeatable; any removes all")
	t.CompleteFlag(c, "ability", abilities)
	c.MarkFlagsOneRequired("name", "ability", "ttl", "limit", "from")
	c.RunE = Query(t, ofKey(func(ctx context.Context, gate *client.Client, args []string) (api.Key, error) {
		change, err := flags.change(c.Flags().Changed)
		if err != nil {
			return api.Key{}, err
		}
		return gate.ChangeKey(ctx, args[0], args[1], change)
	}), showKey)
	return c
}

// change returns the change that the set flags describe.
func (f *keyFlags) change(set func(flag string) bool) (change api.KeyChange, err error) {
	if set("name") {
		change.Name = api.To(f.name)
	}
	if set("ability") {
		change.Abilities = api.To(f.abilities)
	}
	switch {
	case f.ttl == Never:
		change.ExpiresAt = api.To[*time.Time](nil)
	case f.ttl == "" && set("ttl"):
		return change, errEmptyTTL
	case set("ttl"):
		if err := checkDuration("ttl", f.ttl); err != nil {
			return change, err
		}
		change.TTL = f.ttl
	}
	if set("limit") {
		change.Limits = api.To[[]api.Limit](nil)
		if !slices.Equal(f.limits, []string{noLimits}) {
			change.Limits.Value, err = parseLimits(f.limits)
		}
	}
	if set("from") {
		change.Addresses = api.To[[]string](nil)
		if !slices.Equal(f.addresses, []string{anywhere}) {
			change.Addresses.Value = f.addresses
		}
	}
	return change, err
}

func (t *Tool) listKeys() *cobra.Command {
	var filter client.KeyFilter
	c := &cobra.Command{
		Use: "list <account>", Short: "Lists an account's keys", Args: misuse.Arguments(1),
		ValidArgsFunction: t.Complete(Accounts),
		RunE: Query(t, OfAccount(func(ctx context.Context, gate *client.Client, args []string) (api.KeyList, error) {
			keys, err := gate.Keys(ctx, args[0], filter)
			return api.KeyList{Keys: keys}, err
		}), showKeys),
	}
	AddChoice(c, &filter.Kind, "kind", "key", "key, or login for the tokens of logins", "key", "login")
	c.Flags().BoolVar(&filter.Revoked, "revoked", false, "Include revoked keys")
	return c
}

func (t *Tool) revokeKey() *cobra.Command {
	return &cobra.Command{
		Use: "revoke <account> <key-id>|<name>", SuggestFor: []string{"delete", "remove", "rm"}, Short: "Revokes a key", Args: misuse.Arguments(2),
		ValidArgsFunction: t.Complete(Accounts, Keys),
		RunE: Perform(t, ofKey(func(ctx context.Context, gate *client.Client, args []string) (string, error) {
			return "Revoked " + Plain(args[1]) + ".", gate.RevokeKey(ctx, args[0], args[1])
		})),
	}
}

func (t *Tool) rotateKey() *cobra.Command {
	var rotation api.Rotation
	c := &cobra.Command{
		Use: "rotate <account> <key-id>", Short: "Replaces a key with a new one, and shows its token once", Args: misuse.Arguments(2),
		ValidArgsFunction: t.Complete(Accounts, Keys),
		Example:           "caddy tollgate key rotate acc_1 key_4kdm2Zq0yT1RbXc7 --overlap 24h",
		RunE: Query(t, OfAccount(func(ctx context.Context, gate *client.Client, args []string) (api.IssuedKey, error) {
			if rotation.Overlap == "" {
				return api.IssuedKey{}, errNoOverlap
			}
			if err := checkDuration("overlap", rotation.Overlap); err != nil {
				return api.IssuedKey{}, err
			}
			id, err := KeyOf(ctx, gate, args[0], args[1])
			if err == nil && id != args[1] { // a repetition would rotate the replacement
				err = misuse.Errorf("use the id of the key: %s", id)
			}
			if err != nil {
				return api.IssuedKey{}, err
			}
			return gate.RotateKey(ctx, args[0], id, rotation)
		}), showIssued),
	}
	c.Flags().StringVar(&rotation.Overlap, "overlap", "0s", "How long the old key still works, for example 24h or 7d; 0s ends it at once")
	return c
}

func showIssued(table io.Writer, key api.IssuedKey) {
	showKey(table, key.Key)
	Row(table, "Token", key.Token)
	Row(table)
	Row(table, "The token is not shown again.")
}

func showKey(table io.Writer, key api.Key) {
	Row(table, "ID", key.ID)
	Row(table, "Account", key.Account)
	Row(table, "Name", key.Name)
	Row(table, "Abilities", strings.Join(key.Abilities, " "))
	Row(table, "Limits", cmp.Or(limitsOf(key.Limits), None))
	Row(table, "Addresses", cmp.Or(strings.Join(key.Addresses, " "), anywhere))
	Row(table, "Expires", MomentOr(key.ExpiresAt, Never))
}

func showKeys(table io.Writer, list api.KeyList) {
	Row(table, "ID", "NAME", "TOKEN", "ABILITIES", "CREATED", "LAST USED", "FROM", "EXPIRES", "REVOKED", "LIMITS", "ADDRESSES")
	for _, k := range list.Keys {
		from := None
		if k.LastUsedFrom != nil {
			from = *k.LastUsedFrom
		}
		hint := k.Hint
		if k.Declared {
			hint += ", declared"
		}
		Row(table, k.ID, k.Name, hint, strings.Join(k.Abilities, " "), Moment(k.CreatedAt),
			MomentOr(k.LastUsedAt, Never), from, MomentOr(k.ExpiresAt, Never), MomentOr(k.RevokedAt, None),
			cmp.Or(limitsOf(k.Limits), None), cmp.Or(strings.Join(k.Addresses, " "), anywhere))
	}
	End(table, len(list.Keys))
}
