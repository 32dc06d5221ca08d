package license

import (
	"slices"
	"strings"
)

// copyright returns the license names in a machine-readable copyright file: the first lines of the License fields in the
// header and in Files paragraphs. Stand-alone License paragraphs only explain a name.
func copyright(text string) []string {
	var names []string
	for i, paragraph := range paragraphs(text) {
		switch {
		case i == 0 && !strings.Contains(paragraph["format"], "copyright-format"):
			return nil
		case i > 0 && paragraph["files"] == "":
			continue
		}
		if name := strings.Join(strings.Fields(paragraph["license"]), " "); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// paragraphs splits a file into paragraphs. Each maps lower-case field names to their first lines.
func paragraphs(text string) []map[string]string {
	var all []map[string]string
	var current map[string]string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" {
			current = nil
			continue
		}
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "#") {
			continue // a continuation line, or a comment
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		if current == nil {
			current = make(map[string]string)
			all = append(all, current)
		}
		current[strings.ToLower(name)] = strings.TrimSpace(value)
	}
	return all
}
