// Package shellword quotes text for POSIX shells.
package shellword

import "strings"

// Quote returns text as one word, in which a shell evaluates nothing.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
