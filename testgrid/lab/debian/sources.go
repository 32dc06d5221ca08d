package debian

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is one line of apt's configuration, or one combination from a stanza: a URI with suites and components.
type Source struct {
	URI        string
	Suites     []string
	Components []string
	SignedBy   string // path of a keyring; empty when apt's trusted keys count
}

// Sources reads apt's sources from sources.list and sources.list.d below etcApt, which is /etc/apt. It leaves out disabled
// and source-code entries. The formats are those of sources.list(5).
func Sources(etcApt string) ([]Source, error) {
	paths := []string{filepath.Join(etcApt, "sources.list")}
	for _, pattern := range []string{"*.list", "*.sources"} {
		found, err := filepath.Glob(filepath.Join(etcApt, "sources.list.d", pattern))
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	var list []Source
	for _, path := range paths {
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read apt's sources: %w", err)
		}
		parse := ParseOneLine
		if strings.HasSuffix(path, ".sources") {
			parse = ParseDeb822
		}
		found, err := parse(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read apt's sources in %s: %w", path, err)
		}
		list = append(list, found...)
	}
	return list, nil
}

// ParseOneLine reads the one-line format: deb [option=value …] uri suite [component …].
func ParseOneLine(r io.Reader) ([]Source, error) {
	var list []Source
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(text, "\t", " ")), " ")
		if kind != "deb" {
			continue
		}
		var s Source
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			options, after, closed := strings.Cut(rest[1:], "]")
			if !closed {
				return nil, fmt.Errorf("line %d: the options have no closing bracket", n)
			}
			for option := range strings.FieldsSeq(options) {
				if value, ok := strings.CutPrefix(option, "signed-by="); ok {
					s.SignedBy = value
				}
			}
			rest = after
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return nil, fmt.Errorf("line %d: a source needs a URI and a suite", n)
		}
		s.URI, s.Suites, s.Components = fields[0], fields[1:2], fields[2:]
		list = append(list, s)
	}
	return list, lines.Err()
}

// ParseDeb822 reads the stanza format: fields of the form Name: value, with empty lines between stanzas.
func ParseDeb822(r io.Reader) ([]Source, error) {
	var list []Source
	stanza := map[string]string{}
	var last string
	flush := func() {
		list = append(list, stanzaSources(stanza)...)
		stanza, last = map[string]string{}, ""
	}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), " \t\r")
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			flush()
		case line[0] == ' ' || line[0] == '\t':
			if last == "" {
				return nil, fmt.Errorf("line %d: a continuation without a field before it", n)
			}
			stanza[last] += "\n" + strings.TrimSpace(line)
		default:
			name, value, found := strings.Cut(line, ":")
			if !found {
				return nil, fmt.Errorf("line %d: expected a field of the form Name: value", n)
			}
			last = strings.ToLower(strings.TrimSpace(name))
			stanza[last] = strings.TrimSpace(value)
		}
	}
	flush()
	return list, lines.Err()
}

func stanzaSources(fields map[string]string) []Source {
	enabled := strings.ToLower(fields["enabled"])
	if !slices.Contains(strings.Fields(fields["types"]), "deb") || enabled == "no" || enabled == "false" {
		return nil
	}
	signedBy := fields["signed-by"]
	if strings.Contains(signedBy, "\n") || !strings.HasPrefix(signedBy, "/") {
		signedBy = "" // the key itself, or a fingerprint
	}
	var list []Source
	for uri := range strings.FieldsSeq(fields["uris"]) {
		list = append(list, Source{
			URI: uri, Suites: strings.Fields(fields["suites"]), Components: strings.Fields(fields["components"]), SignedBy: signedBy,
		})
	}
	return list
}

// Archives are the two archives that a Debian system installs from.
type Archives struct {
	Main     string // packages of a release, by URI without a slash at the end
	Security string // their security updates
	Keyring  string // file with the keys of both; empty when the machine names none
}

// MachineArchives finds Debian's own archives in the machine's sources. It recognises third-party sources by their suites,
// which are not Debian releases.
func MachineArchives(sources []Source) (Archives, error) {
	var a Archives
	for _, s := range sources {
		if !strings.HasPrefix(s.URI, "http") || !slices.Contains(s.Components, "main") {
			continue
		}
		for _, suite := range s.Suites {
			name, security := strings.CutSuffix(strings.TrimSuffix(suite, "/updates"), "-security")
			if !isRelease(name) {
				continue
			}
			place := &a.Main
			if security || strings.HasSuffix(suite, "/updates") {
				place = &a.Security
			}
			if *place == "" {
				*place = strings.TrimSuffix(s.URI, "/")
			}
			if a.Keyring == "" {
				a.Keyring = s.SignedBy
			}
		}
	}
	if a.Main == "" {
		return a, errors.New("apt's sources on this machine name no Debian archive; the lab installs its hosts from one: " +
			"add a deb line for Debian to /etc/apt/sources.list")
	}
	if a.Security == "" {
		a.Security = a.Main + "-security" // as every mirror of both is laid out
	}
	return a, nil
}

// isRelease reports whether a suite is a Debian release, by code name or by role.
func isRelease(suite string) bool {
	return slices.Contains([]string{"bullseye", "bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing", "unstable"}, suite)
}
