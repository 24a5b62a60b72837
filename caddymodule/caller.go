package caddymodule

import (
	"strconv"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

const identitySyntax = "identity <placeholder> [plan <plan>|<placeholder> of <plans...>] [prefix <text>]"

func (p *parser) identity(args []string) error {
	c := &policy.IdentityConfig{Placeholder: args[0]}
	p.app.Identity = c
	fields := map[string]*string{"plan": &c.Plan, "prefix": &c.Prefix}
	for args = args[1:]; len(args) > 0; {
		field, known := fields[args[0]]
		switch {
		case args[0] == "of" && strings.HasPrefix(c.Plan, "{") && c.Plans == nil:
			for args = args[1:]; len(args) > 0 && args[0] != "prefix"; args = args[1:] {
				c.Plans = append(c.Plans, args[0])
			}
			continue
		case !known || len(args) == 1 || args[1] == "":
			return p.WrongArguments(identitySyntax)
		}
		*field = args[1]
		delete(fields, args[0])
		args = args[2:]
	}
	return nil
}

func (p *parser) anonymous(plan string) error {
	c := &policy.AnonymousConfig{Plan: plan}
	p.app.Anonymous = c
	var number, period string
	return p.Block("anonymous ",
		block.Often("per_address <number> <period>", &number, &period, func() error {
			limit, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return p.Errf("invalid number %q of per_address: use a whole number from 1 to 10^15", number)
			}
			c.PerAddress = append(c.PerAddress, policy.AddressLimit{Limit: limit, Period: period})
			return p.Unique("anonymous "+period, "per_address", period)
		}),
	)
}
