package account

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// keyboards translate letters to the keys of a US keyboard that type them. The
// estimator knows the rows of that keyboard, and its list of common passwords
// has words of other languages as these keys type them.
var keyboards = []map[rune]rune{
	keyboard(
		"йцукенгшщзхъфывапролджэячсмитьбю",  // Russian
		"           ї і        є",           // Ukrainian
		" ςερτυθιοπ  ασδφγηξκλ  ζχψωβνμ",    // Greek
		"  קראטוןםפ  שדגכעיחלךף זסבהנמצתץ",  // Hebrew
		"ضصثقفغعهخحجدشسيبلاتنمكطئءؤر ىةوزظ", // Arabic
		"           چ  ی      کگ      پ",    // Persian
		"たていすかんなにらせ゛゜ちとしはきくまのりれけつさそひこみもねるめぬふあうえおやゆよわほ", // Japanese
		"ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ  ㅁㄴㅇㄹㅎㅗㅓㅏㅣ  ㅋㅌㅊㅍㅠㅜㅡ",               // Korean
		"ौैाीूबहगदजड़ोे्िुपरकतचटॆंमनवलस  य",            // Hindi
		"ๆไำพะัีรนยบลฟหกดเ้่าสวงผปแอิืทมใฝ",            // Thai
		strings.Repeat(" ", 33)+"一二三四五六七八九十",           // Chinese digits
		"ქწერტყუიოპ  ასდფგჰჯკლ  ზხცვბნმ",               // Georgian
	),
	keyboard("azertyuiop  qsdfghjklm wxcvbn"),     // French
	keyboard("љњертзуиопшђасдфгхјклчћѕџцвбнм"),    // Serbian
	keyboard(" уеишщксдзц ьяаожгтнвмчюйъэфхпрлб"), // Bulgarian
}

// keyboard reads layouts. A space is a key without a letter.
func keyboard(layouts ...string) map[rune]rune {
	const us = "qwertyuiop[]asdfghjkl;'zxcvbnm,./1234567890-"
	keys := map[rune]rune{}
	for _, layout := range layouts {
		for i, letter := range []rune(layout) {
			if letter == ' ' {
				continue
			}
			keys[letter] = rune(us[i])
			// Syllables of Korean decompose into other code points.
			if plain := []rune(norm.NFKD.String(string(letter))); len(plain) == 1 {
				keys[plain[0]] = rune(us[i])
			}
			if 'ぁ' <= letter && letter <= 'ん' {
				keys[letter-'ぁ'+'ァ'] = rune(us[i])
			}
		}
	}
	return keys
}

// typed returns the keys that type a text in lower case and in the form NFC.
func typed(text string, keys map[rune]rune) string {
	var b strings.Builder
	for _, letter := range text {
		if key, found := keys[letter]; found {
			b.WriteRune(key)
			continue
		}
		for _, part := range norm.NFKD.String(string(letter)) {
			if key, found := keys[part]; found {
				part = key
			}
			b.WriteRune(part)
		}
	}
	return b.String()
}
