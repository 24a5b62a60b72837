package caddymodule

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/route"
)

func (p *parser) endpoint(name string, route []string) error {
	e := policy.EndpointConfig{Name: name}
	subject := "endpoint " + name
	if err := p.Unique(subject, "endpoint", name); err != nil {
		return err
	}
	if err := p.route("endpoint <name>", route, &e); err != nil {
		return err
	}
	var cost []string
	err := p.Block(subject+" ",
		block.Often("route <methods...>|* <paths...>", &route, func() error { return p.route("route", route, &e) }),
		block.Once("ability <name>", &e.Ability),
		block.Once("rename <old names...>", &e.Rename),
		block.Once("upgrade [on|off]", &e.Upgrade),
		block.Once("keep <headers...>", &e.Keep),
		block.Once(costSyntax, &cost, func() error { return p.cost(cost, &e) }),
	)
	p.app.Endpoints = append(p.app.Endpoints, e)
	return err
}

// route parses methods and paths. Each method has each path.
func (p *parser) route(option string, words []string, e *policy.EndpointConfig) error {
	paths := slices.IndexFunc(words, func(word string) bool { return !methods.MatchString(word) })
	if paths < 1 || paths > 1 && slices.Contains(words[:paths], route.AnyMethod) {
		return p.WrongArguments(option + " <methods...>|* <paths...>")
	}
	for _, path := range words[paths:] {
		for _, method := range words[:paths] {
			pattern := method + " " + path
			if err := p.Unique("endpoint "+e.Name+" "+pattern, "route", pattern); err != nil {
				return err
			}
			e.Patterns = append(e.Patterns, pattern)
		}
	}
	return nil
}

// methods matches a word that is a method, or a mistake in one.
var methods = regexp.MustCompile(`^(\*|[A-Za-z_-]+)$`)

const costSyntax = "cost <number>|json <member> [<size>]|answer <header> reserve <number>"

// cost parses a constant cost, the array whose number of elements is the cost,
// or the header of the answer that tells it.
func (p *parser) cost(args []string, e *policy.EndpointConfig) (err error) {
	switch {
	case args[0] == "answer":
		if len(args) != 4 || args[2] != "reserve" {
			return p.WrongArguments(costSyntax)
		}
		e.CostHeader = args[1]
		if e.CostReserve, err = strconv.ParseInt(args[3], 10, 64); err != nil || e.CostReserve < 1 {
			return p.Errf("invalid reservation %q of cost: use a whole number from 1 to %d", args[3], policy.MaxReserve)
		}
		return nil
	case args[0] != "json" && len(args) == 1:
		if e.Cost, err = strconv.ParseInt(args[0], 10, 64); err != nil || e.Cost < 1 {
			return p.Errf("invalid cost %q: use a whole number from 1 to %d, json <member>, or answer <header> reserve <number>", args[0], policy.MaxCost)
		}
		return nil
	case args[0] != "json" || len(args) < 2 || len(args) > 3:
		return p.WrongArguments(costSyntax)
	case args[1] == "":
		return p.Err("empty member: name an array of the JSON body")
	}
	e.CostMember = args[1]
	if len(args) == 3 {
		size, err := humanize.ParseBytes(args[2])
		if err != nil || size == 0 || size > policy.MaxCostBody {
			return p.Errf("invalid size %q of cost: use a size up to 16MiB, such as 256KiB", args[2])
		}
		e.CostBody = int64(size)
	}
	return nil
}

const tokenPrefixSyntax = "token_prefix <word>"
