package store

import (
	"regexp"
	"testing"
)

var validTag = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// FuzzKeyTag checks that every key has a tag that registries accept, that two keys never share one, and that List finds it by any prefix.
func FuzzKeyTag(f *testing.F) {
	for _, pair := range [][2]string{{"app-1.0.tar.gz", ".sealift/app-1.0.tar.gz.json"}, {"a_b", "a_5fb"}, {"_z", "z"}, {"a+b", "a/b"}} {
		f.Add(pair[0], pair[1], uint(2))
	}
	f.Fuzz(func(t *testing.T, one, other string, cut uint) {
		if one == "" || other == "" {
			return
		}
		tag := keyTag(one)
		if !validTag.MatchString(tag) {
			t.Errorf("%q has the tag %q", one, tag)
		}
		if (tag == keyTag(other)) != (one == other) {
			t.Errorf("%q and %q have the tags %q and %q", one, other, tag, keyTag(other))
		}
		if prefix := one[:cut%uint(len(one)+1)]; !mayHavePrefix(tag, prefix) {
			t.Errorf("tag %q of %q is not found by %q", tag, one, prefix)
		}
	})
}
