package keyfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// kongFile is what this package needs of Kong's declarative file.
type kongFile struct {
	Version     string      `yaml:"_format_version"`
	Consumers   []yaml.Node `yaml:"consumers"`
	Credentials []yaml.Node `yaml:"keyauth_credentials"`
}

type kongConsumer struct {
	ID          string      `yaml:"id"`
	Username    string      `yaml:"username"`
	CustomID    string      `yaml:"custom_id"`
	Credentials []yaml.Node `yaml:"keyauth_credentials"`
}

// kongCredential is a key of the plugin key-auth.
type kongCredential struct {
	// Consumer is the username or the id of the consumer, in the list at the
	// top of the file only.
	Consumer string `yaml:"consumer"`
	Key      string `yaml:"key"`
	TTL      int64  `yaml:"ttl"` // seconds
}

var (
	errNoKong         = errors.New("the file is not the declarative configuration of Kong: it has no _format_version")
	errKongForm       = errors.New("the consumer or the credential is not in Kong's form: username, custom_id, consumer and key are texts, ttl is a number")
	errKongNoKey      = errors.New("the credential has no key")
	errKongNoConsumer = errors.New("the file has no consumer with the username or id that the credential names")
	errKongNoID       = errors.New("the consumer has neither custom_id nor username")
	errKongTTL        = errors.New("the ttl is not a number of seconds from 0 to 3153600000")
)

// maxTTL is the longest ttl, in seconds: 100 years.
const maxTTL = 36500 * 24 * 60 * 60

// ReadKong reads the keys of the plugin key-auth from Kong's declarative file,
// in YAML or JSON. The account is custom_id, or else username.
func ReadKong(from io.Reader, o Options) (keys Keys, err error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return keys, fmt.Errorf("reading the keys: %w", err)
	}
	if json.Valid(text) {
		// YAML refuses tabs in some places where JSON has them, for example
		// before the first token. No string of JSON has a tab.
		text = bytes.ReplaceAll(text, []byte("\t"), []byte(" "))
	}
	var file kongFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		return keys, invalidYAML(err)
	}
	if file.Version == "" {
		return keys, errNoKong
	}
	accounts := map[string]string{} // by username and id of the consumer
	for _, node := range file.Consumers {
		var consumer kongConsumer
		if node.Decode(&consumer) != nil {
			keys.add(o, node.Line, api.KeyLine{}, errKongForm)
			continue
		}
		account := cmp.Or(consumer.CustomID, consumer.Username)
		for _, name := range []string{consumer.Username, consumer.ID} {
			if name != "" {
				accounts[name] = account
			}
		}
		for _, credential := range consumer.Credentials {
			keys.addKong(o, &credential, func(string) (string, bool) { return account, true })
		}
	}
	for _, credential := range file.Credentials {
		keys.addKong(o, &credential, func(name string) (string, bool) {
			account, found := accounts[name]
			return account, found
		})
	}
	return keys, nil
}

// addKong adds a credential. account returns the account of a consumer.
func (k *Keys) addKong(o Options, node *yaml.Node, account func(consumer string) (string, bool)) {
	line, err := parseKong(o, node, account)
	k.add(o, node.Line, line, err)
}

func parseKong(o Options, node *yaml.Node, account func(string) (string, bool)) (line api.KeyLine, err error) {
	var credential kongCredential
	if node.Decode(&credential) != nil {
		return line, errKongForm
	}
	var found bool
	line.Account, found = account(credential.Consumer)
	switch {
	case !found:
		return line, errKongNoConsumer
	case line.Account == "":
		return line, errKongNoID
	case credential.Key == "":
		return line, errKongNoKey
	case credential.TTL < 0 || credential.TTL > maxTTL:
		return line, errKongTTL
	case credential.TTL > 0:
		line.ExpiresAt = new(o.Now.Add(time.Duration(credential.TTL) * time.Second))
	}
	line.SHA256, err = hash(credential.Key, "")
	return line, err
}

var yamlLine = regexp.MustCompile(`\bline \d+`)

// invalidYAML returns an error without the text that the parser's error can
// have of the file.
func invalidYAML(err error) error {
	if at := yamlLine.FindString(err.Error()); at != "" {
		return fmt.Errorf("the file is not valid YAML or not Kong's, at %s", at)
	}
	return errors.New("the file is not valid YAML or not Kong's")
}
