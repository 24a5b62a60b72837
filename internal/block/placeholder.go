package block

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
)

// places has where this process has read placeholders in Caddyfiles. They get
// their values when a configuration is loaded, and its JSON has no lines.
var places sync.Map

var (
	placeholder = regexp.MustCompile(`\{[^{}]+\}`)
	variable    = regexp.MustCompile(`\{\$(\w+)\}`)
)

// Resolve replaces the placeholders of an option. escape is for their values, and
// can be nil. An error names the placeholder without a value, where it is, and the
// next step: hint, with the variable for NAME. It has no other part of the option,
// which can be a secret.
func Resolve(option, hint string, escape func(string) string) (string, error) {
	return caddy.NewReplacer().ReplaceFunc(option, func(name string, value any) (any, error) {
		switch text := caddy.ToString(value); {
		case text == "":
			return nil, missing(option, name, hint)
		case escape != nil:
			return escape(text), nil
		default:
			return text, nil
		}
	})
}

// missing is the error of a placeholder without a value.
func missing(option, name, hint string) (err error) {
	switch kind, of, _ := strings.Cut(name, "."); {
	case kind == "env":
		err = fmt.Errorf("{%s} has no value: set the variable %s where Caddy is started%s", name, of, strings.ReplaceAll(hint, "NAME", of))
	case kind == "file":
		_, err = os.ReadFile(of)
		err = fmt.Errorf("{%s} has no value: write the file, and let Caddy read it: %w", name, cmp.Or(err, errors.New("it is empty")))
	case option == "{"+name+"}" && len(option) < 32: // too short for a secret
		err = fmt.Errorf("unknown placeholder {%s}: use {env.NAME} or {file./path}", name)
	default: // it can be a part of a secret
		err = errors.New("unknown placeholder: use {env.NAME} or {file./path}")
	}
	if where, known := places.Load("{" + name + "}"); known {
		err = fmt.Errorf("%w, at %s", err, where)
	}
	return err
}

// unset says which variable of the current line has no value, or "". Caddy has
// replaced {$NAME} by nothing.
func (p *Parser) unset() string {
	text, _ := os.ReadFile(p.File()) // standard input has none
	lines := strings.Split(string(text), "\n")
	for _, found := range variable.FindAllStringSubmatch(lines[min(p.Line(), len(lines))-1], -1) {
		if os.Getenv(found[1]) == "" {
			return fmt.Sprintf("; %s has no value: set the variable %s where Caddy is started", found[0], found[1])
		}
	}
	return ""
}
