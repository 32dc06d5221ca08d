package inventory

import (
	"archive/tar"
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/compression"
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

// TestHostileLayersAreBounded builds trees as a hostile layer would: with endless names, and with work for nothing.
func TestHostileLayersAreBounded(t *testing.T) {
	names := newTree()
	err := error(nil)
	for i := 0; err == nil && i < maxNodes; i++ {
		err = names.put(strings.Repeat("x", 3000)+string(rune('0'+i%10))+"/"+strconv.Itoa(i)+strings.Repeat("y", 1000), &node{layer: 1, link: "z"})
	}
	if !errors.Is(err, errTooLarge) || names.bytes > maxBytes+2*maxPath {
		t.Errorf("%d bytes of names are kept: %v", names.bytes, err)
	}
	work := newTree()
	if err := work.put("a/b", &node{layer: 1, found: &found{foreign: true}}); err != nil {
		t.Fatal(err)
	}
	work.visits = maxVisits - 10
	layer, err := compression.NewReader(bytes.NewReader(fixture.Layer(t, slices.Repeat([][2]string{{"a/.wh..wh..opq"}}, 20)...)), maxWindow)
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	s := &scanner{ctx: t.Context()}
	if err := s.apply(work, tar.NewReader(layer), "", 1); !errors.Is(err, errTooLarge) {
		t.Errorf("work without end: %v", err)
	}
}
