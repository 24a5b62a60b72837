package jsonbody

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// Request is a JSON-RPC request. A response that a client sends has no method.
type Request struct {
	Method string
	Tool   string // of policy.ToolMethod
	ID     []byte // as JSON, nil without one and in a batch
}

// Requests returns the requests of a body, which is one request or a batch of them.
func Requests(body []byte) (list []Request, err error) {
	d := NewDecoder(body)
	if d.PeekKind() != '[' {
		list = make([]Request, 1)
		list[0], err = readRequest(d)
	} else if _, err = d.ReadToken(); err == nil {
		for err == nil && d.PeekKind() != ']' {
			var q Request
			q, err = readRequest(d)
			q.ID = nil
			list = append(list, q)
		}
		if err == nil {
			_, err = d.ReadToken()
		}
	}
	if err == nil {
		err = End(d)
	}
	if err == nil && len(list) == 0 {
		err = ErrUnclear
	}
	return list, err
}

var (
	requestNames = Spellings("method", "params", "id", "result", "error")
	paramsNames  = Spellings("name")
)

// readRequest reads a request. It refuses one that parsers could read differently.
func readRequest(d *jsontext.Decoder) (q Request, err error) {
	var asks, answers, unclearTool bool
	unclear, err := ReadObject(d, requestNames, func(name string) (err error) {
		switch kind := d.PeekKind(); {
		case name == "method" && kind != '"':
			err = ErrUnclear
		case name == "method":
			asks = true
			q.Method, err = readText(d)
		case name == "params" && kind == '{':
			unclearTool, err = ReadObject(d, paramsNames, func(name string) (err error) {
				if name == "name" && d.PeekKind() == '"' {
					q.Tool, err = readText(d)
				} else {
					_, err = Skip(d)
				}
				return err
			})
		case name == "id" && (kind == '"' || kind == '0'):
			var value jsontext.Value
			value, err = d.ReadValue()
			q.ID = slices.Clone(value)
		default:
			answers = answers || name == "result" || name == "error"
			_, err = Skip(d)
		}
		return err
	})
	isTool := q.Method == policy.ToolMethod
	switch {
	case err != nil:
		return q, err
	case unclear, asks == answers, asks && !isName(q.Method), isTool && (unclearTool || !isName(q.Tool)):
		return q, ErrUnclear
	case !isTool:
		q.Tool = ""
	}
	return q, nil
}

func readText(d *jsontext.Decoder) (string, error) {
	token, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

// isName tells whether a text can be the name of a method or a tool. For some
// parsers, a text ends at a NUL.
func isName(text string) bool { return text != "" && !strings.ContainsRune(text, 0) }
