package delta_test

import (
	"bytes"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/bundle/lean"
)

// relative returns a program that shares its texts with the others of its release, and has code that lies elsewhere.
func relative(release, which uint64) []byte {
	return append(program(30+release, which, 1_500_000), program(40+release, 0, 1_500_000)...)
}

// release returns a package with three programs of one release, one of them in a layer, and one that is unlike them.
func release(t *testing.T, version uint64) *bundle.Archive {
	t.Helper()
	return packageWith(t, version, layerOf(t, "app", relative(version, 1)), map[string][]byte{
		"two": relative(version, 2), "three": relative(version, 3), "other": program(99, 0, 1_600_000),
	})
}

// within returns a bundle with patches of similar files.
func within(t *testing.T, spool *delta.Spool, b bundle.Bundle) []byte {
	t.Helper()
	set, err := spool.Within(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	b.Members, b.Patched = append(b.Members, set.Members...), set.Entries
	data := bundleOf(t, b)
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSimilarFilesOfBundleAreCarriedOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first := release(t, 0)
	programs := bundle.BytesFile(bundle.PreflightName, 0o755, relative(0, 4))
	whole := bundle.BytesFile(bundle.BinaryName, 0o755, relative(0, 5))
	members, err := bundle.Render(t.Context(), []bundle.File{whole, programs}, bundle.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := bundle.Bundle{Packages: []*bundle.Archive{first}, Members: members}
	folder := t.TempDir()
	data, plain := within(t, delta.NewSpool(folder), b), bundleOf(t, b)
	if len(data) > len(plain)*6/10 {
		t.Errorf("with patches %d bytes, without %d", len(data), len(plain))
	}
	if !bytes.Equal(data, within(t, delta.NewSpool(folder), b)) || !bytes.Equal(data, within(t, delta.NewSpool(t.TempDir()), b)) {
		t.Error("a second run wrote other bytes")
	}
	a := opened(t, data)
	made := map[string]bool{}
	for _, e := range a.Index.Entries {
		if e.Encoding == bundle.Patched {
			made[path.Base(e.Path)] = true
		}
	}
	if a.Index.Format != bundle.FormatWithin || a.Index.Base != "" || len(made) != 4 || made["other"] || made["sealift"] || !made["sealift-preflight"] {
		t.Errorf("format %s, made are %v", a.Index.Format, made)
	}
	equalsWhole(t, a, first)
	if got := contentOf(t, a, bundle.PreflightName); !bytes.Equal(got, relative(0, 4)) {
		t.Error("the program at the root is another one")
	}
	tarred := t.TempDir() // as tar unpacks it
	for name, content := range unpack(t, data) {
		at := filepath.Join(tarred, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	fromFolder, err := bundle.Open(tarred)
	if err != nil {
		t.Fatal(err)
	}
	equalsWhole(t, fromFolder, first)
	if err := errors.Join(a.Close(), fromFolder.Close()); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v %v", left, err)
	}
}

// TestLaterBundleAddsToOneWithSimilarFiles has files that only a patch within the earlier bundle makes: as they are, and as what new ones
// are made of.
func TestLaterBundleAddsToOneWithSimilarFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first := release(t, 0)
	old := opened(t, within(t, delta.NewSpool(t.TempDir()), bundle.Bundle{Packages: []*bundle.Archive{first}}))
	again := update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{first}})
	if len(again) > 20_000 {
		t.Errorf("nothing changed, and the bundle has %d bytes", len(again))
	}
	a := withBase(t, again, old)
	if _, needed := a.PatchSpace(); needed < 4_500_000 || needed > 9_500_000 { // what the earlier one makes, and a base
		t.Errorf("%d bytes are needed", needed)
	}
	equalsWhole(t, a, first)
	if _, needed := a.PatchSpace(); needed != 0 {
		t.Errorf("all files are made, and %d bytes are still needed", needed)
	}
	next := packageWith(t, 1, layerOf(t, "app", relative(0, 1)), map[string][]byte{"two": relative(0, 12), "three": relative(0, 13)})
	equalsWhole(t, withBase(t, update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{next}}), old), next)

	// Changed files are made of each other, not of the earlier bundle.
	spool, since := delta.NewSpool(t.TempDir()), earlier(t, old).Since
	other := release(t, 2)
	equalsWhole(t, withBase(t, within(t, spool, bundle.Bundle{Packages: []*bundle.Archive{other}, Since: since}), old), other)
}

// TestBundlesLeaveOutEveryFormOfLayer adds nothing to earlier bundles that have layers plain, lean, and made by patches.
func TestBundlesLeaveOutEveryFormOfLayer(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	twice := append(relative(0, 1), relative(0, 1)...) // gzip does not notice
	first, spool := packageWith(t, 0, layerOf(t, "app", twice), map[string][]byte{"two": relative(0, 2), "three": relative(0, 3)}), t.TempDir()
	form, err := lean.NewSpool(spool).Companion(t.Context(), first)
	if err != nil || form == nil {
		t.Fatal(form, err)
	}
	defer form.Close()
	small := bundle.Bundle{Packages: []*bundle.Archive{first}, Lean: []*bundle.Archive{form}}
	for name, data := range map[string][]byte{
		"plain": bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}), "lean": bundleOf(t, small), "made": within(t, delta.NewSpool(spool), small),
	} {
		old := opened(t, data)
		b := small
		b.Since = earlier(t, old).Since
		again := within(t, delta.NewSpool(spool), b)
		if len(again) > 20_000 {
			t.Errorf("%s: nothing changed, and the bundle has %d bytes", name, len(again))
		}
		equalsWhole(t, withBase(t, again, old), first)
	}
}

// TestLinksToPatchedFilesArePatched has two files of the same content in a package.
func TestLinksToPatchedFilesArePatched(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	twins := func(version uint64) *bundle.Archive {
		return packageWith(t, version, layerOf(t, "app", program(21, version, 400_000)), map[string][]byte{
			"program": relative(0, version), "twin": relative(0, version), "other": relative(0, version+10),
		})
	}
	first, second := twins(0), twins(1)
	old := opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}}))
	for name, a := range map[string]*bundle.Archive{
		"of an earlier bundle": withBase(t, update(t, earlier(t, old), bundle.Bundle{Packages: []*bundle.Archive{second}}), old),
		"within":               opened(t, within(t, delta.NewSpool(t.TempDir()), bundle.Bundle{Packages: []*bundle.Archive{second}})),
	} {
		var made int
		for _, e := range a.Index.Entries {
			if e.Encoding == bundle.Patched && strings.HasPrefix(e.Path, "addons/demo/1.1.0/assets/") {
				made++
			}
		}
		if name == "of an earlier bundle" && made != 3 || made == 0 {
			t.Errorf("%s: %d programs are patched", name, made)
		}
		equalsWhole(t, a, second)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFilesAtRootStaySimilar adds to a bundle with the same sealift at its root, which no bundle leaves out, and another sealift-preflight.
func TestFilesAtRootStaySimilar(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	with := func(preflight []byte) bundle.Bundle {
		members, err := bundle.Render(t.Context(), []bundle.File{
			bundle.BytesFile(bundle.BinaryName, 0o755, relative(0, 5)), bundle.BytesFile(bundle.PreflightName, 0o755, preflight),
		}, bundle.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return bundle.Bundle{Packages: []*bundle.Archive{packageOf(t, 0)}, Members: members}
	}
	for encoding, preflight := range map[bundle.Encoding][]byte{bundle.Patched: relative(0, 3), bundle.InBase: relative(0, 4)} {
		old, now := opened(t, bundleOf(t, with(preflight))), with(relative(0, 4))
		now.Since = earlier(t, old).Since
		a := withBase(t, within(t, delta.NewSpool(t.TempDir()), now), old)
		if e, _ := a.Entry(bundle.PreflightName); e.Encoding != encoding || e.Within() != (encoding == bundle.Patched) {
			t.Errorf("%+v", e)
		}
		equalsWhole(t, a, now.Packages[0])
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestImpossiblePatchesWithinAreRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	data := within(t, delta.NewSpool(t.TempDir()), bundle.Bundle{Packages: []*bundle.Archive{release(t, 0)}})
	a := opened(t, data)
	index, _ := a.Raw()
	var made bundle.Entry
	for _, e := range a.Index.Entries {
		if e.Within() {
			made = e
		}
	}
	for want, change := range map[string][2]string{
		"is patched, which format":   {"archive/v4", "archive/v3"},
		"which the archive does not": {`"link": "` + made.Link + `"`, `"link": "addons/none"`},
		"is made of \"" + made.Path:  {`"link": "` + made.Link + `"`, `"link": "` + made.Path + `"`},
		"which has another content":  {`"link": "` + made.Link + `"`, `"link": "addons/demo/1.0.0/install.sh"`},
		"another bundle, but":        {`"within": true,`, ``},
	} {
		if !bytes.Contains(index, []byte(change[0])) {
			t.Fatalf("the index has no %s", change[0])
		}
		if _, err := bundle.NewUnpacked(bytes.ReplaceAll(index, []byte(change[0]), []byte(change[1])), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	at := bytes.Index(data, contentOf(t, a, made.Patch.Path)[:64])
	data[at+32] ^= 1
	if err := opened(t, data).Verify(t.Context()); err == nil || !strings.Contains(err.Error(), made.Patch.Path) {
		t.Errorf("a damaged patch: %v", err)
	}
}

func TestPatchesWithinAreAsDocumented(t *testing.T) {
	data := within(t, delta.NewSpool(t.TempDir()), bundle.Bundle{Packages: []*bundle.Archive{release(t, 0)}})
	if made := documentedPatches(t, unpack(t, data), nil, "sealift.dev/archive/v4"); made != 2 {
		t.Errorf("%d files are made of similar ones", made)
	}
}
