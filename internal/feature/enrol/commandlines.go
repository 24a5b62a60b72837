package enrol

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

var (
	errNoTokenOrHash = errors.New("the line has neither token nor sha256")
	errTwoForms      = errors.New("the line has both token and sha256: use one")
	errOwnToken      = errors.New("the token is one of a gate: keys of the gate cannot be imported")
)

// keyLine is a key of a file, with the hash of its token.
type keyLine struct {
	number int
	api.KeyLine
}

// lineError is a mistake in a line. It shows nothing of a token.
type lineError struct {
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// readKeys reads a file of JSON lines. A line is an api.KeyLine, or has the
// token instead of its hash. The gate checks accounts, plans, abilities, names
// and expiries. Lines without text are skipped.
func readKeys(from io.Reader) (keys []keyLine, mistakes []lineError, err error) {
	lines := bufio.NewReader(from)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return nil, nil, fmt.Errorf("reading the keys: %w", err)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			if key, mistake := parseKey(text); mistake == nil {
				keys = append(keys, keyLine{number, key})
			} else {
				mistakes = append(mistakes, lineError{number, mistake.Error()})
			}
		}
		if atEnd {
			return keys, mistakes, nil
		}
	}
}

func parseKey(text []byte) (key api.KeyLine, err error) {
	var line struct {
		api.KeyLine
		Token string `json:"token"`
	}
	if err := strict.Unmarshal(text, &line, strict.RejectUnknownMembers(true)); err != nil {
		return key, mistakeOf(err)
	}
	switch {
	case line.Token == "" && line.SHA256 == "":
		return key, errNoTokenOrHash
	case line.Token != "" && line.SHA256 != "":
		return key, errTwoForms
	case line.Token != "":
		line.SHA256, err = hashToken(line.Token, line.Prefix)
	}
	return line.KeyLine, err
}

// mistakeOf returns the error of a line that cannot be read, without the text
// of the line: a token can be anywhere in it.
func mistakeOf(err error) error {
	var syntactic *jsontext.SyntacticError
	var semantic *strict.SemanticError
	switch {
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return errors.New("the line has a duplicate member")
	case errors.As(err, &syntactic):
		return fmt.Errorf("the line is not valid JSON from byte %d on", syntactic.ByteOffset)
	case errors.As(err, &semantic):
		return fmt.Errorf("the line has an unknown member, or a value of a wrong type, at byte %d: "+
			"account, plan, name, token, sha256 and prefix are texts, abilities is a list of texts, expires_at is a time such as 2027-01-01T00:00:00Z", semantic.ByteOffset)
	}
	return errors.New("the line is not valid JSON")
}

// hashToken returns the SHA-256 of a token without its prefix. The token may
// begin with the prefix.
func hashToken(text, prefix string) (string, error) {
	whole, rest := text, text
	if prefix != "" {
		rest = strings.TrimPrefix(text, prefix+"|")
		whole = prefix + "|" + rest
	}
	switch {
	case token.IsOwn(whole):
		return "", errOwnToken
	case isPlaceholder(text):
		return "", errPlaceholder
	case len(rest) < token.MinForeign:
		return "", fmt.Errorf("the token has fewer than %d characters", token.MinForeign)
	case !token.IsForeign(whole):
		return "", fmt.Errorf("the token has more than %d characters, or one that is not visible ASCII", token.MaxText)
	}
	sum := sha256.Sum256([]byte(rest))
	return hex.EncodeToString(sum[:]), nil
}
