package registry

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Renamed is an image that an object named, and its name in the registry.
type Renamed struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Renamer changes the images that Kubernetes objects name to those that a push to its target made of them.
type Renamer struct {
	target Target
	known  map[string]bool // repository:tag and repository@digest, in full
	forms  []form          // the longest first
}

// form is one way to write the name of an image.
type form struct{ text, repository, rest string }

// NewRenamer returns a Renamer for images, given as references with a tag, a digest or both.
func NewRenamer(target Target, refs []string) (*Renamer, error) {
	r := &Renamer{target: target, known: make(map[string]bool)}
	for _, ref := range refs {
		named, err := reference.ParseNormalizedNamed(ref)
		if err != nil {
			return nil, fmt.Errorf("image %q: %w", ref, err)
		}
		named = reference.TagNameOnly(named)
		if tagged, ok := named.(reference.Tagged); ok {
			r.add(named, ":"+tagged.Tag())
		}
		if digested, ok := named.(reference.Digested); ok {
			r.add(named, "@"+digested.Digest().String())
		}
	}
	slices.SortFunc(r.forms, func(a, b form) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), strings.Compare(a.text, b.text))
	})
	r.forms = slices.Compact(r.forms)
	return r, nil
}

func (r *Renamer) add(named reference.Named, rest string) {
	repository := named.Name()
	r.known[repository+rest] = true
	for _, name := range []string{repository, strings.Replace(repository, "docker.io/library/", "docker.io/", 1), reference.FamiliarName(named)} {
		r.forms = append(r.forms, form{name + rest, repository, rest})
	}
}

// Rename changes an object in place: the images of its containers, however they are written, and known images that other texts of it
// mention with their tag or digest, such as arguments and ConfigMaps. It returns each renamed image once, and the images of containers
// that are not known, which stay.
func (r *Renamer) Rename(object map[string]any) (renamed []Renamed, unknown []string) {
	if object["kind"] == "CustomResourceDefinition" {
		return nil, nil // its schema speaks of images and names none
	}
	w := &renaming{Renamer: r}
	w.mapping(object, false)
	byName := func(a, b Renamed) int { return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To)) }
	slices.SortFunc(w.renamed, byName)
	slices.Sort(w.unknown)
	return slices.Compact(w.renamed), slices.Compact(w.unknown)
}

// renaming is one call of Rename.
type renaming struct {
	*Renamer
	renamed []Renamed
	unknown []string
}

func (w *renaming) mapping(m map[string]any, container bool) {
	for key, value := range m {
		if text, ok := value.(string); ok && container && key == "image" {
			m[key] = w.image(text)
			continue
		}
		m[key] = w.value(value, slices.Contains([]string{"containers", "initContainers", "ephemeralContainers"}, key))
	}
}

// value returns a value with its images renamed. containers marks a list of containers.
func (w *renaming) value(value any, containers bool) any {
	switch value := value.(type) {
	case map[string]any:
		w.mapping(value, false)
	case []any:
		for n, item := range value {
			if one, ok := item.(map[string]any); ok {
				w.mapping(one, containers)
			} else {
				value[n] = w.value(item, false)
			}
		}
	case string:
		return w.text(value)
	}
	return value
}

// image renames the image of a container.
func (w *renaming) image(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		w.unknown = append(w.unknown, ref)
		return ref
	}
	rest, known := "", false
	named = reference.TagNameOnly(named)
	if tagged, ok := named.(reference.Tagged); ok {
		rest = ":" + tagged.Tag()
		known = w.known[named.Name()+rest]
	}
	if digested, ok := named.(reference.Digested); ok {
		digest := "@" + digested.Digest().String()
		rest, known = rest+digest, w.known[named.Name()+digest] // it decides what is pulled, and not the tag
	}
	if !known {
		w.unknown = append(w.unknown, ref)
		return ref
	}
	return w.note(ref, w.target.repository(named.Name())+rest)
}

func (w *renaming) note(from, to string) string {
	w.renamed = append(w.renamed, Renamed{from, to})
	return to
}

// text renames the images that a text mentions.
func (w *renaming) text(text string) string {
	if !strings.ContainsAny(text, ":@") {
		return text
	}
	for _, f := range w.forms {
		for from := 0; ; {
			at := strings.Index(text[from:], f.text)
			if at < 0 {
				break
			}
			at += from
			end := at + len(f.text)
			if at > 0 && inName(text[at-1]) || end < len(text) && inName(text[end]) && !w.pinned(f.repository, text[end:]) {
				from = at + 1
				continue
			}
			to := w.note(f.text, w.target.repository(f.repository)+f.rest)
			text = text[:at] + to + text[end:]
			from = at + len(to)
		}
	}
	return text
}

// pinned reports whether a text goes on with the digest of a known image.
func (w *renaming) pinned(repository, text string) bool {
	const length = len("@sha256:") + sha256.Size*2
	return len(text) >= length && w.known[repository+text[:length]]
}

// inName reports whether a character can be part of the name of an image, so that a name beside it goes on.
func inName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_./:@-", c) >= 0
}
