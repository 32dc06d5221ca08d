package builder_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/bundle/signature"
)

func TestCurrentPackageIsNotRebuilt(t *testing.T) {
	dir := addOn(t, "demo", "asset notes ./notes.txt\n")
	writeFile(t, filepath.Join(dir, "notes.txt"), "notes")
	c := openCache(t)
	out := filepath.Join(t.TempDir(), "out")
	buildWith := func(o builder.Options) builder.Result {
		t.Helper()
		o.Config = config.Default()
		b, err := builder.New(c, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Build(t.Context(), dir, out)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := buildWith(builder.Options{})
	key, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name    string
		change  func(t *testing.T)
		options builder.Options
		want    bool
	}{
		{"when nothing has changed", func(*testing.T) {}, builder.Options{}, true},
		{"when there are more jobs", func(*testing.T) {}, builder.Options{Jobs: 9}, true},
		{"when it was copied to its place again", func(t *testing.T) {
			data := readFile(t, first.Path)
			if err := os.Remove(first.Path); err != nil {
				t.Fatal(err)
			}
			writeFile(t, first.Path, data)
		}, builder.Options{}, true},
		{"and after that", func(*testing.T) {}, builder.Options{}, true},
		{"not when a byte of it has changed and its size and date have not", func(t *testing.T) {
			info, err := os.Stat(first.Path)
			if err != nil {
				t.Fatal(err)
			}
			data := []byte(readFile(t, first.Path))
			data[len(data)/2] ^= 1
			writeFile(t, first.Path, string(data))
			if err := os.Chtimes(first.Path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}, builder.Options{}, false},
		{"not when it is gone", func(t *testing.T) { _ = os.Remove(first.Path) }, builder.Options{}, false},
		{"not for another platform", func(*testing.T) {}, builder.Options{Platforms: []string{"linux/arm64"}}, false},
		{"not with images in another format", func(*testing.T) {}, builder.Options{ImageFormat: builder.DockerArchive}, false},
		{"not when it is to be signed", func(*testing.T) {}, builder.Options{Key: key}, false},
		{"not when it is to be signed no more", func(*testing.T) {}, builder.Options{}, false},
		{"not when a file of the add-on has changed", func(t *testing.T) { writeFile(t, filepath.Join(dir, "install.sh"), "changed\n") }, builder.Options{}, false},
		{"not when a local asset has changed", func(t *testing.T) { writeFile(t, filepath.Join(dir, "notes.txt"), "other") }, builder.Options{}, false},
	}
	for _, step := range steps { // in this order: each starts from the result of the one before
		t.Run(step.name, func(t *testing.T) {
			step.change(t)
			before, _ := os.Stat(first.Path)
			r := buildWith(step.options)
			after, err := os.Stat(r.Path)
			if err != nil {
				t.Fatal(err)
			}
			if r.UpToDate != step.want || before != nil && os.SameFile(before, after) != step.want {
				t.Errorf("up to date: %v, want %v", r.UpToDate, step.want)
			}
			if r.Size != after.Size() || step.want && r.SHA256 != first.SHA256 {
				t.Errorf("result is %+v, the first was %+v", r, first)
			}
		})
	}
}
