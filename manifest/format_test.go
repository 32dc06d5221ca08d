package manifest_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFormatChangesOnlyBlanks(t *testing.T) {
	const before = "# why   so\r\n\r\n  \t# indented\t\r\nimage   a\ta:1   no_remote_load  \n\n\n  asset https://example.com/f\napt x"
	const after = "# why   so\n\n# indented\nimage a a:1 no_remote_load\n\n\nasset https://example.com/f\napt x\n"
	file, err := manifest.Parse("m", strings.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, string(file.Format())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSaveFollowsLinkAndKeepsMode(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real", "Manifest"), filepath.Join(dir, "Manifest")
	write(t, target, "apt   fio")
	if err := os.Chmod(target, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real/Manifest", link); err != nil {
		t.Fatal(err)
	}
	file, err := manifest.Load(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Save(link); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(target)
	if err != nil || string(text) != "apt fio\n" {
		t.Errorf("the file behind the link: %q, %v", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("permissions: %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(target)); err != nil || len(left) != 1 {
		t.Errorf("left beside it: %v, %v", left, err)
	}
}

// FuzzParse checks reading and printing together: nothing panics, every mistake has a position, and canonical forms round-trip.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"image a a:1 no_remote_load\n\n# c\r\nasset https://h/a%2Fb?x\n", "asset n p\napt x", "\ufeffyum8 fio\n",
		"dockerout rhel-9 D --build-arg=A=b --build-arg=C=\n", "dockerout rhel-9 D 1 2", "yum a b\nimage\x00", " \t\n\t#",
		"chart a oci://h/a 1\nchart b https://h/ 1.2.3-rc+x --namespace=c\nchart c oci://h/a:1 ^1 --namespace=\nchart d http://u:p@h/?q v", "image a __X__\nasset ../x y\nasset : http://\xff", "# a\vb\napt24 \u00a0",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := manifest.Parse("m", bytes.NewReader(text))
		for _, finding := range manifest.Check(file) {
			if finding.Pos.Line == 0 || finding.Pos.Col == 0 {
				t.Errorf("no place: %v", finding)
			}
		}
		if err != nil {
			var errs diag.Errors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("not a list of mistakes: %v", err)
			}
			return
		}
		printed := file.Format()
		again, err := manifest.Parse("m", bytes.NewReader(printed))
		if err != nil {
			t.Fatalf("canonical form is refused: %v\n%s", err, printed)
		}
		if diff := cmp.Diff(file.Directives(), again.Directives(), ignoreOrigin, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("directives change (-read +reread)\n%s", diff)
		}
		if twice := again.Format(); !bytes.Equal(printed, twice) {
			t.Errorf("canonical form changes: %q, %q", printed, twice)
		}
	})
}
