package inventory

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/bundle"
)

// maxStatement is the longest statement of an image about its licenses, in bytes.
const maxStatement = 4096

// keepError reports that a text could not be kept, which says nothing about what is read.
type keepError struct{ err error }

func (e *keepError) Error() string { return "keep the text of a license: " + e.err.Error() }
func (e *keepError) Unwrap() error { return e.err }

// isA reports whether an error is, or wraps, one of a type.
func isA[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// text reads a file that has a license or a notice by its name. A file with bytes that no text has is read as any other.
func (s *scanner) text(in io.Reader, h *tar.Header, name string) (*found, error) {
	start := make([]byte, min(int64(len(elfMagic)), h.Size))
	if _, err := io.ReadFull(in, start); err != nil {
		return nil, err
	}
	in = io.MultiReader(bytes.NewReader(start), in)
	if string(start) == elfMagic {
		return s.program(in, h.Size)
	}
	if h.Size > license.MaxText {
		return &found{unread: fmt.Sprintf("it has %d bytes, which is too much for a license", h.Size)}, nil
	}
	data, err := io.ReadAll(in)
	if err != nil || len(data) == 0 || bytes.IndexByte(data, 0) >= 0 {
		return nil, err
	}
	f := &found{text: newText(data)}
	if strings.HasPrefix(name, "usr/share/doc/") && path.Base(name) == "copyright" {
		f.licenses = license.Copyright(string(data))
	} else {
		f.text.Licenses = license.OfText(data)
	}
	if s.keep != nil {
		if err := s.keep(f.text.SHA256, data); err != nil {
			return nil, &keepError{err}
		}
	}
	return f, nil
}

func newText(data []byte) *Text {
	sum := sha256.Sum256(data)
	return &Text{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
}

// textFile lists a file of the bundle that is a text itself.
func (s *scanner) textFile(f *File, r io.Reader, e bundle.Entry) error {
	read, err := s.text(r, &tar.Header{Size: e.Size}, path.Base(e.Path))
	if err != nil || read == nil {
		return err
	}
	if read.text != nil {
		read.text.Path = path.Base(e.Path)
		f.Texts = []Text{*read.text}
	}
	f.add(path.Base(e.Path), read)
	return nil
}

// copyright returns the copyright file of a Debian package, or nil. The package may share it with another one by a link.
func (t *tree) copyright(name string) *found {
	doc := t.lookup("usr/share/doc/" + name + "/copyright")
	if doc == nil || doc.text == nil {
		return nil
	}
	return doc
}

// texts lists the texts of a tree, in the order of their paths.
func (t *tree) texts() []Text {
	var all []Text
	t.walk(func(name string, f *found) {
		if f.text != nil {
			text := *f.text
			text.Path, text.Layer = name, f.layer
			all = append(all, text)
		}
	})
	slices.SortFunc(all, func(a, b Text) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// folders groups texts by the folders that they lie in.
func folders(texts []Text) map[string][]Text {
	all := make(map[string][]Text)
	for _, text := range texts {
		all[path.Dir(text.Path)] = append(all[path.Dir(text.Path)], text)
	}
	return all
}

// maxElements bounds the elements of a module's path that are compared.
const maxElements = 10

// addModules gives modules of programs the licenses of texts in folders that are named after them, as in
// /licenses/github.com/google/uuid/LICENSE and below vendor. Programs themselves say nothing about the licenses of their modules.
func addModules(programs []Program, texts []Text) {
	linked := make(map[string]string) // names, with and without a version
	for _, p := range programs {
		for _, m := range p.Modules {
			linked[m.Name], linked[m.Name+"@"+m.Version] = m.Name, m.Name
		}
	}
	named := make(map[string][]string)
	for n := range texts {
		elements := strings.Split(strings.TrimPrefix(path.Dir(texts[n].Path), "/"), "/")
		for at := max(0, len(elements)-maxElements); at < len(elements); at++ {
			name := strings.Join(elements[at:], "/")
			if module := linked[name]; strings.Contains(elements[at], ".") && module != "" {
				texts[n].Module = module
				named[name] = append(named[name], texts[n].Licenses...)
			}
		}
	}
	if len(named) == 0 {
		return
	}
	for n, p := range programs {
		modules := slices.Clone(p.Modules)
		for k, m := range modules {
			found := append(slices.Clone(named[m.Name]), named[m.Name+"@"+m.Version]...)
			slices.Sort(found)
			modules[k].Licenses = slices.Compact(found)
		}
		programs[n].Modules = modules
	}
}
