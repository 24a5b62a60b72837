package caddymodule

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
	var cost, rpc []string
	err := p.Block(subject+" ",
		block.Often("route <methods...>|* <paths...>", &route, func() error { return p.route("route", route, &e) }),
		block.Once(jsonrpcSyntax, &rpc, func() error { return p.jsonrpc(rpc, &e) }),
		block.Once("ability <name>", &e.Ability),
		block.Once("rename <old names...>", &e.Rename),
		block.Once("upgrade [on|off]", &e.Upgrade),
		block.Once("keep <headers...>", &e.Keep),
		block.Once(costSyntax, &cost, func() error { return p.cost(cost, &e) }),
		block.Once("unit <word>", &e.Unit),
		block.Once(refundSyntax, (*string)(&e.Refund)),
		block.Once(errorsSyntax, (*string)(&e.Errors)),
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

const jsonrpcSyntax = "jsonrpc <method> [<tool>]"

func (p *parser) jsonrpc(args []string, e *policy.EndpointConfig) error {
	if len(args) > 2 || slices.Contains(args, "") {
		return p.WrongArguments(jsonrpcSyntax)
	}
	e.JSONRPC = &policy.JSONRPC{Method: args[0], Tool: strings.Join(args[1:], "")}
	return nil
}

const costSyntax = "cost <number>|json <member> [<size>]|answer <header>|json <member>[+<member>...] [scale <factor>] reserve <number>|bound <member>[|<member>...] <number> [<size>]"

// cost parses a constant cost, the array whose number of elements is the cost, or
// what the answer tells.
func (p *parser) cost(args []string, e *policy.EndpointConfig) (err error) {
	switch {
	case args[0] == "answer":
		return p.costAnswer(args[1:], e)
	case args[0] != "json" && len(args) == 1:
		if e.Cost, err = strconv.ParseInt(args[0], 10, 64); err != nil || e.Cost < 1 {
			return p.Errf("invalid cost %q: use a whole number from 1 to %d, json <member>, or answer", args[0], policy.MaxCost)
		}
		return nil
	case args[0] != "json" || len(args) < 2 || len(args) > 3:
		return p.WrongArguments(costSyntax)
	case args[1] == "":
		return p.Err("empty member: name an array of the JSON body")
	}
	e.CostMember = args[1]
	return p.costBody(args[2:], e)
}

// costAnswer parses what of the answer tells the cost, and the reservation.
func (p *parser) costAnswer(args []string, e *policy.EndpointConfig) (err error) {
	next := func() (word string) {
		if len(args) > 0 {
			word, args = args[0], args[1:]
		}
		return word
	}
	a := &policy.CostAnswerConfig{Header: next()}
	if a.Header == "json" {
		a.Header, a.Members = "", strings.Split(next(), "+")
	}
	if len(args) > 0 && args[0] == "scale" {
		next()
		a.Scale = json.Number(next())
		if _, err := strconv.ParseFloat(a.Scale.String(), 64); err != nil {
			return p.Errf("invalid scale %q of cost: use a number, such as 100", a.Scale)
		}
	}
	if next() != "reserve" {
		return p.WrongArguments(costSyntax)
	}
	number := next()
	if number == "bound" {
		a.Bound, number = strings.Split(next(), "|"), next()
	}
	if number == "" || len(args) > 0 && a.Bound == nil {
		return p.WrongArguments(costSyntax)
	}
	if a.Reserve, err = strconv.ParseInt(number, 10, 64); err != nil {
		return p.Errf("invalid reservation %q of cost: use a whole number up to %d", number, policy.MaxReserve)
	}
	e.CostAnswer = a
	return p.costBody(args, e)
}

// costBody parses the maximum size of a body, if there is one.
func (p *parser) costBody(args []string, e *policy.EndpointConfig) error {
	if len(args) == 0 {
		return nil
	}
	size, err := humanize.ParseBytes(args[0])
	if err != nil || size == 0 || size > policy.MaxCostBody {
		return p.Errf("invalid size %q of cost: use a size up to 16MiB, such as 256KiB", args[0])
	}
	if len(args) > 1 {
		return p.WrongArguments(costSyntax)
	}
	e.CostBody = int64(size)
	return nil
}

const errorsSyntax = "errors json|pass|openai"

const tokenPrefixSyntax = "token_prefix <word>"
