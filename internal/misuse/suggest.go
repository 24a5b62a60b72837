package misuse

import (
	"slices"
	"strings"
)

// Suggest returns what to write instead of an unknown word: the nearest known
// word if there is one that is similar, or all of them. known has at least one.
func Suggest(word string, known []string) string {
	nearest := slices.MinFunc(known, func(a, b string) int { return distance(word, a) - distance(word, b) })
	if d := distance(word, nearest); d <= 2 && d < len(nearest)/2+1 {
		return "did you mean " + nearest + "?"
	}
	return "use " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// distance is how many letters to insert, to delete or to replace to get from a
// to b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
