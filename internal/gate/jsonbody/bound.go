package jsonbody

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

// A token of a language model covers at least one byte of its text: all families
// have tokens for single bytes. Some tokenizers first normalize the text, which can
// make it longer. Around each message and each tool, a template writes a few tokens
// more. e2e/tokens counts the tokens of all this.
const (
	// forCall is more than the prompt that a template begins with, also to explain
	// tools.
	forCall = 2048
	// forObject is more than what a template writes around a message or a tool.
	forObject = 16

	// maxAnswers is how many answers a request can ask for.
	maxAnswers = 1000
	// maxDigits of a number in a body.
	maxDigits = 9
)

// answers are the members that say how many answers a request asks for: of
// OpenAI's APIs, of llama.cpp and of Gemini's.
var answers = []string{"n", "best_of", "n_cmpl", "candidateCount"}

// Bound returns how many tokens a request with text to a language model can take
// and make at most. Each answer has at most as many as the largest of the members
// (dotted names) says, or missing if none says more than 0. Images, audio, files,
// what the service keeps of earlier requests, and definitions of tools that become
// longer when a template writes them again are not in it.
func Bound(body []byte, members []string, missing int64) (int64, error) {
	b := bound{Decoder: NewDecoder(body), members: members, answers: 1, prompts: 1}
	if err := b.read(""); err != nil {
		return 0, err
	}
	if err := End(b.Decoder); err != nil {
		return 0, err
	}
	if b.answers *= b.prompts; b.answers > maxAnswers {
		return 0, ErrUnclear
	}
	if b.most == 0 { // for some services, 0 is no bound
		b.most = missing
	}
	return int64(len(body)) + added(body) + forCall + b.answers*b.most, nil
}

type bound struct {
	*jsontext.Decoder
	members []string
	most    int64 // the largest of the members
	answers int64 // to each prompt
	prompts int64
}

// read reads the object that is the value of a dotted name with a dot behind it, or
// the body.
func (b *bound) read(path string) error {
	known := slices.Concat(answers, []string{"prompt"})
	for _, member := range b.members {
		if name, inside := strings.CutPrefix(member, path); inside {
			name, _, _ = strings.Cut(name, ".")
			known = append(known, name)
		}
	}
	unclear, err := ReadObject(b.Decoder, Spellings(known...), func(name string) (err error) {
		member := path + name
		switch {
		case slices.Contains(b.members, member):
			return b.number(&b.most)
		case slices.Contains(answers, name):
			return b.number(&b.answers)
		case b.PeekKind() == '{' && slices.ContainsFunc(b.members, func(other string) bool { return strings.HasPrefix(other, member+".") }):
			return b.read(member + ".")
		}
		if member != "prompt" || b.PeekKind() != '[' {
			_, err = Skip(b.Decoder)
			return err
		}
		outer := b.StackDepth()
		_, _ = b.ReadToken()
		tokens := b.PeekKind() == '0' // of one prompt
		length, err := skipTo(b.Decoder, outer)
		if !tokens {
			b.prompts = max(1, length)
		}
		return err
	})
	if err == nil && unclear {
		err = ErrUnclear
	}
	return err
}

// number reads a whole number from 0, or null, and raises most to it.
func (b *bound) number(most *int64) error {
	token, err := b.ReadToken()
	if err != nil || token.Kind() == 'n' {
		return err
	}
	text := token.String()
	n, err := strconv.ParseUint(text, 10, 64)
	if token.Kind() != '0' || err != nil || len(text) > maxDigits {
		return ErrUnclear
	}
	*most = max(*most, int64(n))
	return nil
}

// added returns what the templates and the normalization can add to a body that is
// valid.
func added(body []byte) (tokens int64) {
	for d := NewDecoder(body); ; {
		token, err := d.ReadToken()
		switch {
		case err != nil:
			return tokens
		case token.Kind() == '{':
			tokens += forObject
		case token.Kind() == '"':
			text := token.String()
			tokens += int64(max(0, len(norm.NFC.String(text))-len(text), len(norm.NFKC.String(text))-len(text)))
		}
	}
}
