package proc

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Fields calls each with the fields of every line of a table with at least five. It returns the results, without empty ones,
// sorted. A table that does not exist has no lines.
func Fields(name string, each func([]string) string) ([]string, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 5 {
			if one := each(fields); one != "" {
				found = append(found, one)
			}
		}
	}
	slices.Sort(found)
	return found, lines.Err()
}

// Unescape undoes what proc(5) does to spaces, tabs, line ends and backslashes.
func Unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
