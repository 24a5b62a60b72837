package account

import (
	"strings"
	"testing"
)

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
