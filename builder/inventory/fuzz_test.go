package inventory

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
)

func FuzzLayer(f *testing.F) {
	program := string(fixture.GoProgram("go1.26.1", "path example.org/p", "dep example.org/m v1.0.0 h1:a"))
	f.Add(fixture.Layer(f, [2]string{"a/b", program}, [2]string{"l", "-> a/../../x"}, [2]string{"l/y", program}, [2]string{"h", "=> l/y"}))
	f.Add(fixture.Layer(f, [2]string{"a/.wh.b"}, [2]string{"a/.wh..wh..opq"}, [2]string{"var/lib/dpkg/status", "Package: a\nVersion: 1\n"}))
	below := fixture.Layer(f, [2]string{"a/b", program}, [2]string{"bin", "-> usr/bin"})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &scanner{ctx: t.Context()}
		defer s.spool.Close()
		tree := newTree()
		if err := s.unpack(tree, bytes.NewReader(below), "below", 1); err != nil {
			t.Fatal(err)
		}
		_ = s.unpack(tree, bytes.NewReader(data), "above", 2)
		if got := tree.root.size() - 1; got != tree.count {
			t.Errorf("%d files are counted as %d", got, tree.count)
		}
		tree.walk(func(name string, _ *found) {
			if !strings.HasPrefix(name, "/") || strings.Contains(name+"/", "/../") {
				t.Errorf("a file has the path %q", name)
			}
		})
	})
}
