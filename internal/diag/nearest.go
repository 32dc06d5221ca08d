package diag

import "strings"

// maxWord bounds the words compared, in bytes: longer ones are not slips of the finger, and the comparison is quadratic.
const maxWord = 64

// Nearest returns the known word that was most likely meant by word, or "" when none is near enough: at most one slip
// in three letters. Case is ignored; of several words equally near the first in known wins.
func Nearest(word string, known []string) string {
	if len(word) > maxWord {
		return ""
	}
	best, bestDistance := "", len(word)/3+1
	for _, candidate := range known {
		if len(candidate) > maxWord {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// DidYouMean is the hint for a mistyped word: `did you mean "x"?` when something known is near, otherwise the list of
// what is known, introduced by otherwise ("known: ").
func DidYouMean(word string, known []string, otherwise string) string {
	if near := Nearest(word, known); near != "" {
		return `did you mean "` + near + `"?`
	}
	return otherwise + strings.Join(known, ", ")
}

// distance counts the single-byte slips between a and b: one left out, one too many, one wrong, two neighbours swapped
// (optimal string alignment).
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	next := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			wrong := row[j-1]
			if a[i-1] != b[j-1] {
				wrong++
			}
			next[j] = min(wrong, row[j]+1, next[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
