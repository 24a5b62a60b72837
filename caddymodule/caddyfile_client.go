package caddymodule

import (
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// This file parses the options that say how clients show who they are.

func (p *parser) cors(origins []string) error {
	c := &policy.CORSConfig{Origins: origins}
	p.app.CORS = c
	return p.block("cors ", map[string]option{
		"max_age": {syntax: "max_age <duration>", args: 1, parse: p.setValues(&c.MaxAge)},
	})
}

const identitySyntax = "identity <placeholder> [plan <plan>] [prefix <text>]"

func (p *parser) identity(args []string) error {
	c := &policy.IdentityConfig{Placeholder: args[0]}
	p.app.Identity = c
	fields := map[string]*string{"plan": &c.Plan, "prefix": &c.Prefix}
	for args = args[1:]; len(args) > 0; args = args[2:] {
		field, known := fields[args[0]]
		if !known || len(args) == 1 || args[1] == "" {
			return p.d.Errf("wrong arguments: write %s", identitySyntax)
		}
		*field = args[1]
		delete(fields, args[0])
	}
	return nil
}
