package caddymodule

import (
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

func (p *parser) endpoint(args []string) error {
	e := policy.EndpointConfig{Name: args[0], Method: args[1], Path: args[2]}
	subject := "endpoint " + e.Name
	if err := p.once(subject, "endpoint", e.Name); err != nil {
		return err
	}
	err := p.block(subject+" ", map[string]option{
		"ability": {syntax: "ability <name>", args: 1, parse: setText(&e.Ability)},
		"upgrade": {syntax: "upgrade", parse: func([]string) error { e.Upgrade = true; return nil }},
		"keep":    {syntax: "keep <headers...>", args: someArgs, parse: func(args []string) error { e.Keep = args; return nil }},
		"cost":    {syntax: costSyntax, args: someArgs, parse: func(args []string) error { return p.cost(args, &e) }},
	})
	p.app.Endpoints = append(p.app.Endpoints, e)
	return err
}

const costSyntax = "cost <number>|json <member> [<size>]"

// cost parses a constant cost, or the array whose number of elements is the
// cost.
func (p *parser) cost(args []string, e *policy.EndpointConfig) (err error) {
	switch {
	case args[0] != "json" && len(args) == 1:
		if e.Cost, err = strconv.ParseInt(args[0], 10, 64); err != nil || e.Cost < 1 {
			return p.d.Errf("invalid cost %q: use a whole number from 1 to %d, or json <member>", args[0], policy.MaxCost)
		}
		return nil
	case args[0] != "json" || len(args) < 2 || len(args) > 3:
		return p.d.Errf("wrong number of arguments: write %s", costSyntax)
	case args[1] == "":
		return p.d.Err("empty member: name an array of the JSON body")
	}
	e.CostMember = args[1]
	if len(args) == 3 {
		size, err := humanize.ParseBytes(args[2])
		if err != nil || size == 0 || size > policy.MaxCostBody {
			return p.d.Errf("invalid size %q of cost: use a size up to 16MiB, such as 256KiB", args[2])
		}
		e.CostBody = int64(size)
	}
	return nil
}
