package bundle_test

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/sealift/sealift/bundle"
)

// behindNetwork is a source that records its requests.
type behindNetwork struct {
	data  []byte
	asked *[]int64 // the lengths of the requested ranges
}

func (b behindNetwork) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(b.data).ReadAt(p, off)
}

func (b behindNetwork) Section(limit int64) io.ReaderAt { return upTo{b, limit} }

type upTo struct {
	behindNetwork
	limit int64
}

func (u upTo) ReadAt(p []byte, off int64) (int, error) {
	*u.asked = append(*u.asked, u.limit-off)
	return u.behindNetwork.ReadAt(p, off)
}

func TestEntryIsReadFromAnyOffset(t *testing.T) {
	data := write(t, demo("app"), bundle.WriteOptions{})
	packed := open(t, data)
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := packed.Extract(t.Context(), root, func(bundle.Entry) bool { return true }); err != nil {
		t.Fatal(err)
	}
	index, _ := packed.Raw()
	unpacked := func(open func(string) (io.ReadCloser, error)) *bundle.Archive {
		a, err := bundle.NewUnpacked(index, nil, func(e bundle.Entry) (io.ReadCloser, error) { return open(e.Path) })
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	far, err := bundle.NewArchive(behindNetwork{data, new([]int64)}, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*bundle.Archive{
		"packed": packed, "far": far,
		"in a folder": unpacked(func(name string) (io.ReadCloser, error) { return root.Open(name) }),
		"from where nothing can be skipped": unpacked(func(name string) (io.ReadCloser, error) {
			f, err := root.Open(name)
			return io.NopCloser(io.MultiReader(f)), err
		}),
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range packed.Index.Entries {
				whole, err := packed.ReadFile(e.Path, 1<<30)
				if err != nil {
					t.Fatal(err)
				}
				for _, from := range []int64{0, 1, 65_000, 66_000, e.Size - 1, e.Size} {
					if from < 0 || from > e.Size {
						continue
					}
					r, err := a.OpenRest(e.Path, from)
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(r)
					if err != nil || !bytes.Equal(got, whole[from:]) {
						t.Errorf("%s from %d: %d bytes, %v", e.Path, from, len(got), err)
					}
					_ = r.Close()
				}
				if _, err := a.OpenRest(e.Path, e.Size+1); err == nil {
					t.Errorf("%s can be read from behind its end", e.Path)
				}
			}
		})
	}
}

// TestSmallFilesAreReadInOneRequest reads the files of an archive behind a network from the last to the first.
func TestSmallFilesAreReadInOneRequest(t *testing.T) {
	p := bundle.Package{Name: "app", Version: "1", Platforms: []string{"linux/amd64"}}
	for _, name := range []string{"a", "b", "c", "d"} {
		p.Files = append(p.Files, bundle.BytesFile("addons/app/1/"+name, 0o644, []byte(name)))
	}
	p.Files = append(p.Files, bundle.BytesFile("addons/app/1/layer", 0o644, layer))
	data := write(t, p, bundle.WriteOptions{})
	var asked []int64
	a, err := bundle.NewArchive(behindNetwork{data, &asked}, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "c", "b", "a", "d"} {
		if got, err := a.ReadFile("addons/app/1/"+name, 10); err != nil || string(got) != name {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if len(asked) != 1 || asked[0] > 10_000 {
		t.Errorf("asked for %d", asked)
	}
}
