package delta_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/internal/sha256hex"
)

func TestSpoolMakesOnePatchAtATime(t *testing.T) {
	first := packageOf(t, 0)
	e := earlier(t, opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}})))
	e.Spool = delta.NewSpool(t.TempDir())
	makePatches := func(p *bundle.Archive) error {
		set, err := e.Make(t.Context(), []*bundle.Archive{p}, nil)
		if err == nil {
			err = set.Close()
		}
		return err
	}
	second, begun, resume := packageOf(t, 1), make(chan struct{}), make(chan struct{})
	index, signature := second.Raw()
	slow, err := bundle.NewUnpacked(index, signature, func(e bundle.Entry) (io.ReadCloser, error) {
		if path.Base(e.Path) == "program" {
			close(begun)
			<-resume
		}
		return second.OpenEntry(e.Path)
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- makePatches(slow) }()
	<-begun
	if err := makePatches(packageOf(t, 2)); !errors.Is(err, delta.ErrBusy) {
		t.Errorf("beside another patch: %v", err)
	}
	close(resume)
	if err := errors.Join(<-ended, makePatches(packageOf(t, 2))); err != nil {
		t.Error(err)
	}
}

func TestSpoolLooksForSimilarFilesOnceAtATime(t *testing.T) {
	first, begun, resume := release(t, 0), make(chan struct{}), make(chan struct{})
	index, signature := first.Raw()
	slow, err := bundle.NewUnpacked(index, signature, func(e bundle.Entry) (io.ReadCloser, error) {
		if path.Base(e.Path) == "other" { // no patch is made of it
			close(begun)
			<-resume
		}
		return first.OpenEntry(e.Path)
	})
	if err != nil {
		t.Fatal(err)
	}
	spool := delta.NewSpool(t.TempDir())
	look := func(p *bundle.Archive) error {
		set, err := spool.Within(t.Context(), bundle.Bundle{Packages: []*bundle.Archive{p}})
		if err == nil {
			err = set.Close()
		}
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- look(slow) }()
	<-begun
	if err := look(packageOf(t, 2)); !errors.Is(err, delta.ErrBusy) {
		t.Errorf("beside another bundle: %v", err)
	}
	close(resume)
	if err := errors.Join(<-ended, look(packageOf(t, 2))); err != nil {
		t.Error(err)
	}
}

// TestSetsShareMembers opens the patches of a bundle several times, as a server does that keeps plans.
func TestSetsShareMembers(t *testing.T) {
	e := earlier(t, opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{packageOf(t, 0)}})))
	e.Spool = delta.NewSpool(t.TempDir())
	second := []*bundle.Archive{packageOf(t, 1)}
	makePatches := func() *delta.Set {
		t.Helper()
		set, err := e.Make(t.Context(), second, nil)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	first, other := makePatches(), makePatches()
	if len(first.Members) != 2 || !slices.Equal(first.Members, other.Members) {
		t.Errorf("%d and %d members, which are not the same", len(first.Members), len(other.Members))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	third := makePatches()
	if !slices.Equal(third.Members, other.Members) {
		t.Error("one of two sets was closed, and the other one has other members than a third")
	}
	closed := other.Members
	if err := errors.Join(other.Close(), third.Close()); err != nil {
		t.Fatal(err)
	}
	last := makePatches()
	if slices.ContainsFunc(last.Members, func(m *bundle.Member) bool { return slices.Contains(closed, m) }) {
		t.Error("a closed member is used")
	}
	for _, m := range last.Members {
		r, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Error(err)
		}
	}
	if err := last.Close(); err != nil {
		t.Error(err)
	}
}

// TestTrimRemovesUnusedPatches removes patches that were used long ago, while a set has them open.
func TestTrimRemovesUnusedPatches(t *testing.T) {
	folder := t.TempDir()
	e := earlier(t, opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{packageOf(t, 0)}})))
	e.Spool = delta.NewSpool(folder)
	second := []*bundle.Archive{packageOf(t, 1)}
	makePatches := func() *delta.Set {
		t.Helper()
		set, err := e.Make(t.Context(), second, nil)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	trim := func(most int64, left int) []string {
		t.Helper()
		if err := e.Spool.Trim(most); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(folder, "*.patch-2"))
		if err != nil || len(names) != left {
			t.Errorf("the spool has %q, %v, want %d", names, err, left)
		}
		all, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil || len(all) != 2*left {
			t.Errorf("the folder has %q, %v", all, err)
		}
		return names
	}
	age := func(name string, by time.Duration) {
		t.Helper()
		if err := os.Chtimes(name, time.Time{}, time.Now().Add(-by)); err != nil {
			t.Fatal(err)
		}
	}
	sets := []*delta.Set{makePatches()}
	names := trim(0, 2)
	age(names[0], 2*time.Hour)
	age(names[1], 2*time.Hour)
	sets = append(sets, makePatches())
	trim(0, 2)
	age(names[0], 3*time.Hour)
	age(names[1], 2*time.Hour)
	if left := trim(sizeOf(t, names[1]), 1); !slices.Equal(left, names[1:]) {
		t.Errorf("%q is left, and was not used for longer", left)
	}
	trim(0, 0)
	for _, set := range sets {
		for _, m := range set.Members {
			r, err := m.Open()
			if err == nil {
				_, err = io.Copy(io.Discard, r)
			}
			if err != nil {
				t.Error(err)
			}
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := delta.NewSpool(filepath.Join(folder, "none")).Trim(0); err != nil {
		t.Error(err)
	}
}

// TestForgedPatchIsMadeAgain has another file's patch in the spool, under the name of the right one.
func TestForgedPatchIsMadeAgain(t *testing.T) {
	first, second, folder := packageOf(t, 0), packageOf(t, 1), t.TempDir()
	e := earlier(t, opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}})))
	e.Spool = delta.NewSpool(folder)
	makePatches := func(p *bundle.Archive) map[string]bundle.Entry {
		t.Helper()
		set, err := e.Make(t.Context(), []*bundle.Archive{p}, nil)
		if err == nil {
			err = set.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return set.Entries
	}
	forged := makePatches(packageOf(t, 2))["addons/demo/1.2.0/assets/program"]
	sum := sha256hex.Of(program(1, 1, 500_000))
	for _, suffix := range []string{".patch-2", ".patch-2.json"} {
		name := filepath.Join(folder, forged.Patch.From.SHA256+"-"+forged.SHA256+suffix)
		if err := os.Rename(name, filepath.Join(folder, forged.Patch.From.SHA256+"-"+sum+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	if got := makePatches(second)["addons/demo/1.1.0/assets/program"]; got.SHA256 != sum || got.Patch.Path == forged.Patch.Path {
		t.Errorf("the spool decides that the program is %s", got.SHA256)
	}
}

// TestForgedListPatchesNoWholeFiles has a list of similar files in the spool that makes each file of the other one.
func TestForgedListPatchesNoWholeFiles(t *testing.T) {
	folder := t.TempDir()
	b := bundle.Bundle{Packages: []*bundle.Archive{release(t, 0)}}
	within(t, delta.NewSpool(folder), b)
	lists, err := filepath.Glob(filepath.Join(folder, "*.similar-1"))
	if err != nil || len(lists) != 1 {
		t.Fatal(lists, err)
	}
	two, three := sha256hex.Of(relative(0, 2)), sha256hex.Of(relative(0, 3))
	if err := os.WriteFile(lists[0], fmt.Appendf(nil, `{%q: %q, %q: %q}`, two, three, three, two), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := opened(t, within(t, delta.NewSpool(folder), b)).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
