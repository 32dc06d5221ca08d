package history_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/history"
	"github.com/sealift/sealift/testgrid/report"
)

// stores are a folder, and a bucket on a real server.
func stores(t *testing.T) map[string]store.Store {
	t.Helper()
	all := map[string]store.Store{}
	for name, location := range map[string]string{"a folder": t.TempDir(), "a bucket": objects.Start(t).URL("grid")} {
		s, err := store.Opener{Write: true}.Open(location)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = s
	}
	return all
}

func TestAttemptIsLoadedWithFiles(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			h := history.History{Store: s}
			f := report.Folder{Path: t.TempDir()}
			r := report.Result{Test: "one", Name: "one", System: "a", Attempt: 1, Verdict: report.Failed, Reason: "no luck", Digest: "abc123", Took: 3,
				Machines: []report.Machine{{Name: "m-1", Address: "192.0.2.7"}}, Files: []string{"support-bundle-1.tar.gz"}}
			if err := f.Save(r); err != nil {
				t.Fatal(err)
			}
			dir := f.Dir("one", "a", 1)
			bundle := bytes.Repeat([]byte("noise"), 1<<20)
			if err := os.WriteFile(filepath.Join(dir, "support-bundle-1.tar.gz"), bundle, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := h.Save(t.Context(), r, dir); err != nil {
				t.Fatal(err)
			}
			there := filepath.Join(t.TempDir(), "one")
			got, err := h.Load(t.Context(), "abc123", 1, there)
			if err != nil || got == nil {
				t.Fatal(got, err)
			}
			r.Machines = nil
			if diff := cmp.Diff(r, *got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if text, err := os.ReadFile(filepath.Join(there, "support-bundle-1.tar.gz")); err != nil || !bytes.Equal(text, bundle) {
				t.Errorf("the support bundle has %d bytes: %v", len(text), err)
			}
			for _, missing := range []struct {
				digest  string
				attempt int
			}{{"abc124", 1}, {"abc123", 2}} {
				if got, err := h.Load(t.Context(), missing.digest, missing.attempt, there); got != nil || err != nil {
					t.Errorf("%+v: %v, %v", missing, got, err)
				}
			}
			if _, err := os.Stat(there); err != nil {
				t.Errorf("a result that does not exist has replaced one that does: %v", err)
			}
		})
	}
}

func TestEscapingArchiveIsRefused(t *testing.T) {
	s, err := store.Opener{Write: true}.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []tar.Header{{Name: "../evil", Typeflag: tar.TypeReg}, {Name: "..", Typeflag: tar.TypeReg}, {Name: "a/b", Typeflag: tar.TypeReg},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, {Name: "notes", Typeflag: tar.TypeReg}} {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		archive := tar.NewWriter(zip)
		if err := archive.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if archive.Close() != nil || zip.Close() != nil {
			t.Fatal("pack")
		}
		if _, err := s.Put(t.Context(), "tests/x/1.tar.gz", store.Bytes(packed.Bytes())); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "x")
		if got, err := (history.History{Store: s}).Load(t.Context(), "x", 1, dir); got != nil || err == nil {
			t.Errorf("%s: %v, %v", header.Name, got, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: a damaged result is left: %v", header.Name, err)
		}
	}
}

// TestMisplacedResultIsRefused uses an attempt of one test under the name of another.
func TestMisplacedResultIsRefused(t *testing.T) {
	s, err := store.Opener{Write: true}.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := history.History{Store: s}
	f := report.Folder{Path: t.TempDir()}
	r := report.Result{Test: "one", System: "a", Attempt: 1, Verdict: report.Passed, Digest: "abc"}
	if err := f.Save(r); err != nil {
		t.Fatal(err)
	}
	moved := r
	moved.Digest = "def"
	if err := h.Save(t.Context(), moved, f.Dir("one", "a", 1)); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Load(t.Context(), "def", 1, filepath.Join(t.TempDir(), "one")); err == nil || !strings.Contains(err.Error(), "damaged or of another test") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestRunIsComparedWithEarlierRuns uses a test that breaks with a package, and stays broken when others change.
func TestRunIsComparedWithEarlierRuns(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 3, 4, 5, 0, time.UTC) }
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			h := history.History{Store: s}
			for n, run := range []struct {
				verdict  report.Verdict
				packages map[string]string
			}{
				{report.Failed, map[string]string{"kubernetes 1.35.4": "a", "flannel 0.26.7": "b"}},
				{report.Passed, map[string]string{"kubernetes 1.35.4": "a", "flannel 0.26.7": "b", "registry 1": "c"}},
				{report.Skipped, nil},
				{report.Flaky, map[string]string{"kubernetes 1.36.3": "d", "flannel 0.26.7": "e", "velero 2": "f"}},
				{report.Failed, map[string]string{"kubernetes 1.37.0": "g", "flannel 0.26.7": "e"}},
			} {
				cells := report.Cells([]report.Result{{Test: "one", Name: "one", System: "a", Attempt: 1, Verdict: run.verdict, Took: report.Seconds(n), Packages: run.packages}})
				if err := h.Add(t.Context(), day(n+1), cells); err != nil {
					t.Fatal(err)
				}
			}
			runs, err := h.Runs(t.Context(), 4)
			if err != nil || len(runs) != 4 || !runs[0].Began.Equal(day(2)) {
				t.Fatalf("%+v, %v", runs, err)
			}
			past := history.Past(runs)[report.PastKey("one", "a")]
			change := report.Broke(past)
			want := &report.Change{Verdict: report.Failed, Since: day(4), Good: day(2),
				By: []string{"flannel 0.26.7, which was built again", "kubernetes 1.36.3 instead of 1.35.4", "the removal of registry 1", "velero 2, which is new"}}
			if diff := cmp.Diff(want, change); diff != "" || len(past) != 3 {
				t.Errorf("%d runs (-want +got)\n%s", len(past), diff)
			}
			if report.Broke(past[:1]) != nil || report.Broke(nil) != nil {
				t.Error("a test that passed is broken")
			}
			if only := report.Broke(past[1:2]); only == nil || !only.Good.IsZero() || only.String() != "broken since 2026-01-04 03:04:05, the first run that is known" {
				t.Errorf("%+v", only)
			}
		})
	}
}
