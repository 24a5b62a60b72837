package keyfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// jsonLine is a line of JSON: a key with its token or the hash of it.
type jsonLine struct {
	api.KeyLine
	Token string `json:"token"`
}

var (
	errNoToken  = errors.New("the line has neither token nor sha256")
	errTwoForms = errors.New("the line has both token and sha256: use one")
	errNoObject = errors.New("the line is not a JSON object")
)

// ReadLines reads JSON lines: see api.KeyLine. Instead of sha256, a line can
// have the token. Lines without text are skipped.
func ReadLines(from io.Reader, o Options) (keys Keys, err error) {
	lines := bufio.NewReader(from)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return keys, fmt.Errorf("reading the keys: %w", err)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			line, mistake := parseLine(text)
			keys.add(o, number, line, mistake)
		}
		if atEnd {
			return keys, nil
		}
	}
}

func parseLine(text []byte) (api.KeyLine, error) {
	var line jsonLine
	if err := decode(text, &line); err != nil {
		return line.KeyLine, err
	}
	switch {
	case line.Token == "" && line.SHA256 == "":
		return line.KeyLine, errNoToken
	case line.Token != "" && line.SHA256 != "":
		return line.KeyLine, errTwoForms
	case line.Token == "":
		return line.KeyLine, nil
	}
	var err error
	line.SHA256, err = hash(line.Token, line.Prefix)
	return line.KeyLine, err
}

// decode reads a line. Its errors show nothing of the line, because a token
// can be anywhere in an invalid one.
func decode(text []byte, line *jsonLine) error {
	err := strict.Unmarshal(text, line, strict.RejectUnknownMembers(true))
	var syntactic *jsontext.SyntacticError
	var semantic *strict.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return errors.New("the line has a duplicate member")
	case errors.As(err, &syntactic):
		return fmt.Errorf("the line is not valid JSON from byte %d on", syntactic.ByteOffset)
	case errors.As(err, &semantic) && errors.Is(err, strict.ErrUnknownName):
		return fmt.Errorf("the line has an unknown member at byte %d; allowed: account, plan, name, abilities, expires_at, token, sha256, prefix", semantic.ByteOffset)
	case errors.As(err, &semantic):
		return wrongType(semantic.JSONPointer)
	default:
		return errors.New("the line is not valid JSON")
	}
}

// wrongType returns the error of a value that its member cannot have. It shows
// only names that are known: another one can be a token.
func wrongType(at jsontext.Pointer) error {
	switch member, _, _ := strings.Cut(strings.TrimPrefix(string(at), "/"), "/"); member {
	case "expires_at":
		return errors.New("expires_at is not a time such as 2027-01-01T00:00:00Z")
	case "abilities":
		return errors.New("abilities is not a list of texts")
	case "account", "plan", "name", "token", "sha256", "prefix":
		return fmt.Errorf("%s is not a text", member)
	default:
		return errNoObject
	}
}
