package account

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

func TestPasswordRules(t *testing.T) {
	t.Parallel()
	const (
		short = "invalid password: Use at least 15 characters. A phrase of several words is best."
		guess = "invalid password: This password is easy to guess: it contains "
		own   = "invalid password: The password must not be your e-mail address."
		name  = guess + "your e-mail address or the name of this site."
		word  = guess + "common words or a common password."
	)
	for password, want := range map[string]string{
		"trombone velvet acorn ladder":      "",
		"blue river seven lamp":             "",
		"кот море лампа седло":              "",
		"spaces and\na line break":          "",
		strings.Repeat("velvet acorn ", 78): "", // long
		NewPassword():                       "",
		"":                                  short,
		"fourteen chars":                    short,
		"tręfl ąćęłńóśż":                    short, // 14 of more bytes
		"caf\u0065\u0301 de olé m":          short, // 14 when composed
		"qzx vbn kpl wjt!":                  "",
		strings.Repeat("q", 1025):           "invalid password: Use at most 1024 bytes.",
		"trombone velvet acorn\xff":         "invalid password: Use UTF-8 text.",
		"Ada.Lovelace@Analytical.example":   own,
		"ADA.LOVELACE":                      own,
		"ada.lovelace2026":                  name,
		"weather & tides":                   name,
		"passwordpassword1":                 word,
		"P@ssw0rd12345678":                  guess,
		"p4$$w0rd p@55w0rd":                 word,
		"aaaaaaaaaaaaaaa":                   guess + "repeated text.",
		"abababababababab":                  guess + "repeated text.",
		"letmein letmein letmein":           guess + "common words or a common password.",
		"qwertyuiopasdfgh":                  guess,
		"zse4rfvgy7ujm,ko0":                 guess + "neighboring keys of a keyboard.",
		"123456789012345":                   guess,
		"abcdefghijklmnop":                  guess + "a sequence of characters, such as 12345.",
		"19990101 19990102":                 guess,
		strings.Repeat("a", 1023) + "b":     guess + "repeated text.",
	} {
		err := CheckPassword(password, "ada.lovelace@analytical.example", "Weather & Tides")
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: got %v, want it allowed", password, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, ErrPassword)):
			t.Errorf("%q: got %v, want %q", password, err, want)
		case err != nil && password != "" && strings.Contains(err.Error(), password):
			t.Errorf("the error repeats the password: %v", err)
		}
	}
}

// The passwords that xcaddy.sh and the command line generate are allowed.
func TestGeneratedPasswords(t *testing.T) {
	t.Parallel()
	rounds := 20
	if storetest.Long() {
		rounds = 200
	}
	for range rounds {
		digits := make([]byte, 10)
		_, _ = rand.Read(digits)
		for _, password := range []string{NewPassword(), hex.EncodeToString(digits)} {
			if err := CheckPassword(password, "demo@example.com", "Currency API"); err != nil {
				t.Errorf("%s: %v", password, err)
			}
		}
	}
}

// Threat: a text keeps a core busy for seconds, because the estimator tries all
// letters that its signs could stand for.
func TestCheckPasswordTakesSigns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		signs := rapid.StringOfN(rapid.SampledFrom([]rune("4@8({[<369&#!1/|0$5+7%2")), 200, 1000, -1).Draw(t, "password")
		if err := CheckPassword(signs, "ada@example.com"); err != nil && !errors.Is(err, ErrPassword) {
			t.Error(err)
		}
	})
}

// TestPhrasesInEveryScript: a phrase in any script is a password, and what
// repeats itself is not.
func TestPhrasesInEveryScript(t *testing.T) {
	t.Parallel()
	for name, password := range map[string]string{
		"German keys":  "qwertzuiopasdfghjkl",
		"wide letters": "ｐａｓｓｗｏｒｄ１２３４５６７",
		"accents":      "pässwördpässwörd1",
		"one letter":   "цццццццццццццца",
		"emoji":        strings.Repeat("😀", 15),
	} {
		if CheckPassword(password, "ada@example.com") == nil {
			t.Errorf("%s: %s is allowed", name, password)
		}
	}
	for _, phrase := range []string{
		"кот море лампа седло", "σκύλος θάλασσα λάμπα", "חתול ים מנורה אוכף כחול", "قطة بحر مصباح سرج أزرق", "山の上に古い家が三つ並んでいた",
		"나는 오늘 파란 우산을 샀다", "सूरज नदी पहाड़ किताब", "แมวทะเลโคมไฟอานม้า", "blå hest går over gaten", "größe tür wolke sieben",
	} {
		if err := CheckPassword(phrase, "ada@example.com"); err != nil {
			t.Errorf("%s: %v", phrase, err)
		}
	}
}
