// Package block parses the blocks of a Caddyfile by a table of their lines.
package block

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

// Line is a line that a block can have.
type Line struct {
	syntax  string // how it is written, without its own block
	into    []any
	repeats bool
}

// Once returns a line that a block can have once. The syntax is how the line is
// written, without its own block. It begins with the name. into has a place for
// each argument:
//
//   - a *bool is a switch: "on" or no argument, or "off"
//   - a *int takes a whole number above zero
//   - a *time.Duration takes a duration above zero
//   - a *string takes any text
//   - a *[]string takes all arguments that remain, at least one
//
// A func() error at the end is called once they have their values. It can parse
// the line's own block.
func Once(syntax string, into ...any) Line { return Line{syntax, into, false} }

// Often returns a line that a block can have several times.
func Often(syntax string, into ...any) Line { return Line{syntax, into, true} }

func (l Line) name() string {
	name, _, _ := strings.Cut(l.syntax, " ")
	return name
}

// At returns where a dispenser is, as file:line.
func At(d *caddyfile.Dispenser) string { return fmt.Sprintf("%s:%d", d.File(), d.Line()) }

// Parser parses blocks, and remembers the position of each line by its subject:
// the name of the line behind the prefix of its block.
type Parser struct {
	*caddyfile.Dispenser
	Lines map[string]string

	bare string // the position of the line before, if it can have a block and has none
}

// New returns a parser.
func New(d *caddyfile.Dispenser) *Parser { return &Parser{Dispenser: d, Lines: map[string]string{}} }

// Block parses the optional block of the current line.
func (p *Parser) Block(prefix string, lines ...Line) error {
	return p.EachLine(func() error { return p.Option(prefix, lines...) })
}

// EachLine calls parse at the first word of each line of an optional block. A
// block without lines is a mistake: defaults would apply silently.
func (p *Parser) EachLine(parse func() error) error {
	bare := At(p.Dispenser)
	for nesting := p.Nesting(); p.NextBlock(nesting); bare = "" {
		if err := parse(); err != nil {
			return err
		}
	}
	p.bare = bare
	return RefuseEmpty(p.Dispenser)
}

// RefuseEmpty refuses a block without lines. NextBlock treats it as no block,
// and stops at its closing brace.
func RefuseEmpty(d *caddyfile.Dispenser) error {
	if d.ValRaw() != "}" || !d.Prev() {
		return nil
	}
	empty := d.ValRaw() == "{"
	d.Next()
	if !empty {
		return nil
	}
	return d.Err("empty block: fill it or remove its braces")
}

// Unique remembers the position of a subject, and refuses a duplicate.
func (p *Parser) Unique(subject, kind, name string) error {
	if first, duplicate := p.Lines[subject]; duplicate {
		return p.Errf("duplicate %s %q (first at %s)", kind, name, first)
	}
	p.Lines[subject] = At(p.Dispenser)
	return nil
}

// WrongArguments is the error of a line with arguments that it cannot have.
func (p *Parser) WrongArguments(syntax string) error {
	return p.Errf("wrong arguments: write %s%s", syntax, p.unset())
}

// Option parses the current line as one of the lines.
func (p *Parser) Option(prefix string, lines ...Line) error {
	name, bare := p.Val(), p.bare
	p.bare = ""
	i := slices.IndexFunc(lines, func(l Line) bool { return l.name() == name })
	if i < 0 {
		var names []string
		for _, l := range lines {
			names = append(names, l.name())
		}
		hint := misuse.Suggest(name, names)
		switch missing := "is { missing at the end of " + bare + "?"; {
		case bare == "":
		case strings.HasPrefix(hint, "use "):
			hint = missing + " Otherwise " + hint
		default:
			hint += " Or " + missing
		}
		return p.Errf("unknown option %q: %s", name, hint)
	}
	if !lines[i].repeats {
		if err := p.Unique(prefix+name, "option", name); err != nil {
			return err
		}
	}
	return p.assign(lines[i])
}

// assign puts the arguments of a line where they belong.
func (p *Parser) assign(l Line) error {
	args := p.RemainingArgs()
	for _, name := range placeholder.FindAllString(strings.Join(args, " "), -1) {
		places.Store(name, At(p.Dispenser))
	}
	if slices.Contains(args, "") && p.unset() != "" {
		return p.WrongArguments(l.syntax)
	}
	for _, place := range l.into {
		switch place := place.(type) {
		case func() error:
			if len(args) > 0 {
				return p.WrongArguments(l.syntax)
			}
			return place()
		case *[]string:
			if len(args) > 0 {
				*place, args = args, nil
				continue
			}
		case *bool:
			if len(args) == 0 {
				*place = true
				continue
			}
		}
		if len(args) == 0 {
			return p.WrongArguments(l.syntax)
		}
		if err := p.set(place, l.name(), args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) > 0 {
		return p.WrongArguments(l.syntax)
	}
	return nil
}

func (p *Parser) set(place any, name, text string) (err error) {
	switch place := place.(type) {
	case *bool:
		if *place = text == "on"; !*place && text != "off" {
			return p.Errf("invalid value %q of %s: use on or off", text, name)
		}
	case *string:
		*place = text
	case *int:
		if *place, err = strconv.Atoi(text); err != nil || *place < 1 {
			return p.Errf("invalid number %q of %s: use a whole number above zero", text, name)
		}
	case *time.Duration:
		if *place, err = caddy.ParseDuration(text); err != nil || *place <= 0 {
			return p.Errf("invalid duration %q of %s: use a duration above zero, such as 500ms, 90s or 24h", text, name)
		}
	default:
		panic(fmt.Sprintf("a line has no place of type %T", place))
	}
	return nil
}
