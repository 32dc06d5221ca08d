package diag

import "strings"

// maxWord is the longest word that is compared, in bytes. Longer words are not typing mistakes, and the comparison takes
// quadratic time.
const maxWord = 64

// Nearest returns the known word that is most similar to word, or "" if none is similar enough: at most one typing mistake
// in three letters. Case is ignored. If several words are equally near, the first one wins.
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

// DidYouMean returns a hint for a mistyped word: `did you mean "x"?` if a known word is near, otherwise the prefix
// otherwise (such as "known: ") and all known words.
func DidYouMean(word string, known []string, otherwise string) string {
	if near := Nearest(word, known); near != "" {
		return `did you mean "` + near + `"?`
	}
	return otherwise + strings.Join(known, ", ")
}

// distance counts single-byte typos between a and b: missing, extra, wrong, or swapped with its neighbour (optimal string
// alignment).
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
