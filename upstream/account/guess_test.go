package account

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestGuessableInEveryScript: what is easy to guess in Latin letters is so in
// other scripts: rows of a keyboard, alphabets and repetitions.
func TestGuessableInEveryScript(t *testing.T) {
	t.Parallel()
	for name, password := range map[string]string{
		"Russian keys":              "йцукенгшщзхъфыва",
		"Russian keys in capitals":  "ЙЦУКЕНГШЩЗХЪФЫВА",
		"Russian keys in columns":   "йфяцычувскамепи",
		"Ukrainian keys":            "іфвапролджєйцукен",
		"Serbian keys":              "љњертзуиопшђасдфг",
		"Bulgarian keys":            "уеишщксдзцьяаожгт",
		"Greek keys":                "ςερτυθιοπασδφγηξκλ",
		"Hebrew keys":               "קראטוןםפשדגכעיחלך",
		"Arabic keys":               "ضصثقفغعهخحجدشسيب",
		"Persian keys":              "ضصثقفغعهخحجچشسیب",
		"Japanese keys":             "たていすかんなにらせちとしはきくま",
		"Katakana keys":             "タテイスカンナニラセチトシハキクマ",
		"Korean keys":               "ㅂㅈㄷㄱ쇼ㅕㅑㅐㅔㅁㄴㅇㄹ호ㅓㅏㅣ",
		"Hindi keys":                "ौैाीूबहगदजोे्िुपर",
		"Thai keys":                 "ๆไำพะัีรนยบลฟหกด",
		"Georgian keys":             "ქწერტყუიოპასდფგჰ",
		"French keys":               "azertyuiopqsdfghjklm",
		"German keys":               "qwertzuiopasdfghjkl",
		"Russian alphabet":          "абвгдеёжзийклмнопр",
		"Greek alphabet":            "αβγδεζηθικλμνξοπρ",
		"Hebrew alphabet":           "אבגדהוזחטיכלמנסע",
		"Arabic alphabet":           "ابتثجحخدذرزسشصضط",
		"Hindi alphabet":            "कखगघङचछजझञटठडढणत",
		"Japanese alphabet":         "あいうえおかきくけこさしすせそ",
		"Korean alphabet":           "가나다라마바사아자차카타파하가",
		"Arabic digits":             "١٢٣٤٥٦٧٨٩٠١٢٣٤٥",
		"Chinese digits":            "一二三四五六七八九十一二三四五",
		"wide letters":              "ｐａｓｓｗｏｒｄ１２３４５６７",
		"accents":                   "pässwördpässwörd1",
		"one letter":                "цццццццццццццца",
		"one word":                  "пароль пароль пароль",
		"a word, and more":          "кошкакошкакошка1",
		"a short block":             "密码密码密码密码密码密码密1",
		"Russian typed in Latin":    "gfhjkmgfhjkmgfhjkm1",
		"a sequence and a sequence": "a1b2c3d4e5f6g7h8",
		"letters three times":       "aaabbbcccdddeeef",
		"emoji":                     strings.Repeat("😀", 15),
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

// TestRandomLettersAreAllowed: chance makes no rows, alphabets and repetitions
// that matter.
func TestRandomLettersAreAllowed(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(1, 2))
	for _, alphabet := range []string{
		"abcdefghijklmnopqrstuvwxyz234567", "абвгдежзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρστυφχψω", "אבגדהוזחטיכלמנסעפצקרשת", "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
		"あいうえおかきくけこさしすせそたちつてとなにぬねの", "0123456789abcdef",
	} {
		letters := []rune(alphabet)
		for range 20 {
			password := make([]rune, 20)
			for i := range password {
				password[i] = letters[chance.IntN(len(letters))]
			}
			if err := CheckPassword(string(password), "ada@example.com"); err != nil {
				t.Errorf("%s: %v", string(password), err)
			}
		}
	}
}

func TestSurprising(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"":             {"", repeated},
		"velvet acorn": {"velvet acorn", repeated},
		"aaaa":         {"a", repeated},
		"abcabcab":     {"abc", repeated},
		"catdogcat":    {"catdog", repeated},
		"abcdefgh":     {"ab", sequence},
		"hgfedcba":     {"hg", sequence},
		"a1b2c3d4e5":   {"a1b2", sequence},
		"moon":         {"moon", repeated},
		"абвгдежз":     {"аб", sequence},
	} {
		if rest, why := surprising([]rune(text)); string(rest) != want[0] || why != want[1] {
			t.Errorf("%q: got %q, %q, want %q", text, string(rest), why, want)
		}
	}
}
