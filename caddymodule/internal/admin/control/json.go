package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/danielgtaylor/huma/v2"
	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// strictJSON reads only what every parser reads alike (RFC 8259, section
// 4; RFC 7493) and writes as encoding/json does. A member name in another
// case is unknown: huma's validation accepts it, and decoding would drop
// the member.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error { return decode("the body", data, v) },
}

// decode reads one JSON value. It replaces the errors of the parser: they
// name Go types. subject is what is read, for messages.
//
// Package cli has its own for the lines of a file with keys: its errors must
// hide the text, which can be a token.
func decode(subject string, data []byte, v any) error {
	err := strict.Unmarshal(data, v, strict.RejectUnknownMembers(true))
	var syntactic *jsontext.SyntacticError
	var semantic *strict.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("duplicate member %q", shorten(syntactic.JSONPointer.LastToken()))
	case errors.As(err, &syntactic):
		return fmt.Errorf("%s is not valid JSON from byte %d on", subject, syntactic.ByteOffset)
	case errors.As(err, &semantic) && errors.Is(err, strict.ErrUnknownName):
		return fmt.Errorf("unknown member %q; allowed: %s", shorten(semantic.JSONPointer.LastToken()), apierror.Members(semantic.GoType))
	case errors.As(err, &semantic):
		return fmt.Errorf("the value at %q must be %s", shorten(string(semantic.JSONPointer)), apierror.JSONType(semantic.GoType))
	default:
		return errors.New(subject + " is not valid JSON")
	}
}
