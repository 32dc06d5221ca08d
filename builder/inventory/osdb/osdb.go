// Package osdb reads the databases in which operating systems record their installed packages: dpkg's status, apk's installed, and rpm's in
// the formats sqlite and ndb. It reads what anybody may have written: every length is checked, and memory is bounded.
//
// Formats: deb-control(5) and dpkg-query(1); apk-package(5) for apk's letters; https://www.sqlite.org/fileformat.html; rpm's lib/backend/ndb.
package osdb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/component"
)

const (
	// maxLine is the longest line that is read. Longer ones are cut: only fields with long lists have them.
	maxLine = 64 << 10
	// maxField is the longest name, version or license statement.
	maxField = 4096
	// MaxPackages is the most packages that a database may have. A full desktop has a few thousand.
	MaxPackages = 50_000
)

var errTooLong = fmt.Errorf("a package has a name, version or license of more than %d bytes", maxField)

var errTooMany = fmt.Errorf("it has more than %d packages", MaxPackages)

// lines calls line for each line of r, cut to maxLine and without its end.
func lines(r io.Reader, line func(string) error) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		data, err := in.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !full && !errors.Is(err, io.EOF) {
			return err
		}
		if len(data) > 0 {
			if err := line(strings.TrimRight(string(data), "\r\n")); err != nil {
				return err
			}
		}
		for full { // skip the rest of the line
			_, err = in.ReadSlice('\n')
			full = errors.Is(err, bufio.ErrBufferFull)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Dpkg reads dpkg's status, or a file of status.d, which distroless images have instead. It leaves out packages that are not installed.
func Dpkg(r io.Reader) ([]component.Component, error) {
	var all []component.Component
	fields := make(map[string]string)
	end := func() error {
		c := component.Component{Kind: component.Deb, Name: fields["package"], Version: fields["version"], Arch: fields["architecture"]}
		state := strings.Fields(fields["status"])
		installed := len(state) == 0 || state[len(state)-1] == "installed" // a file of status.d has no state
		source := fields["source"]
		clear(fields)
		if c.Name == "" || c.Version == "" || !installed {
			return nil
		}
		c.Source, c.SourceVersion = c.Name, c.Version
		if name, rest, _ := strings.Cut(source, " "); name != "" {
			c.Source = name
			if version := strings.Trim(rest, " ()"); version != "" {
				c.SourceVersion = version
			}
		}
		all = append(all, c)
		if len(all) > MaxPackages {
			return errTooMany
		}
		return nil
	}
	err := lines(r, func(line string) error {
		if line == "" {
			return end()
		}
		name, value, found := strings.Cut(line, ":")
		if !found || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			return nil
		}
		switch name = strings.ToLower(name); name {
		case "package", "version", "architecture", "status", "source":
			if len(value) > maxField {
				return errTooLong
			}
			fields[name] = strings.TrimSpace(value)
		}
		return nil
	})
	if err == nil {
		err = end()
	}
	if err != nil {
		return nil, fmt.Errorf("read dpkg's database: %w", err)
	}
	return all, nil
}

// Apk reads apk's installed database.
func Apk(r io.Reader) ([]component.Component, error) {
	var all []component.Component
	c := component.Component{Kind: component.APK}
	end := func() error {
		if c.Name != "" && c.Version != "" {
			c.SourceVersion = c.Version
			if c.Source == "" {
				c.Source = c.Name
			}
			all = append(all, c)
		}
		c = component.Component{Kind: component.APK}
		if len(all) > MaxPackages {
			return errTooMany
		}
		return nil
	}
	err := lines(r, func(line string) error {
		if line == "" {
			return end()
		}
		letter, value, found := strings.Cut(line, ":")
		if !found {
			return nil
		}
		if len(value) > maxField && slices.Contains([]string{"P", "V", "A", "o", "L"}, letter) {
			return errTooLong
		}
		switch letter {
		case "P":
			c.Name = value
		case "V":
			c.Version = value
		case "A":
			c.Arch = value
		case "o":
			c.Source = value
		case "L":
			if value != "" {
				c.Licenses = []string{value}
			}
		}
		return nil
	})
	if err == nil {
		err = end()
	}
	if err != nil {
		return nil, fmt.Errorf("read apk's database: %w", err)
	}
	return all, nil
}

// System returns the distribution that an os-release describes, <ID>-<VERSION_ID>, or <ID> if it has no version.
func System(text string) string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[name] = strings.Trim(value, `"'`)
	}
	id, version := plain(fields["ID"]), plain(fields["VERSION_ID"])
	if id == "" || version == "" {
		return id
	}
	return id + "-" + version
}

// plain returns a word of os-release if it has only characters that os-release(5) allows there, and else nothing.
func plain(word string) string {
	if len(word) > 64 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
		return ""
	}
	return word
}
