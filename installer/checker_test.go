package installer

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/preflight"
)

// carrying is an install of a bundle whose sealift-preflight has this text. It counts how often that is fetched.
func carrying(t *testing.T, root, text string, fetched *int) *Install {
	t.Helper()
	var packed bytes.Buffer
	members, err := bundle.Render(t.Context(), []bundle.File{bundle.BytesFile(bundle.PreflightName, 0o755, []byte(text))}, bundle.WriteOptions{})
	if err == nil {
		_, err = bundle.WriteBundle(t.Context(), &packed, bundle.Bundle{Members: members})
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	index, _ := a.Raw()
	a, err = bundle.NewUnpacked(index, nil, func(bundle.Entry) (io.ReadCloser, error) {
		*fetched++
		return io.NopCloser(strings.NewReader(text)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Install{options: Options{Root: root, Binary: filepath.Join(root, ".install-1", "sealift")}, archive: a, log: newRunLog(t.TempDir(), "install", nil)}
}

func TestProgramIsTakenOutOfTheBundleOnce(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, ".install-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	var fetched int
	run := func(text string, asks int, keeps bool) {
		t.Helper()
		i := carrying(t, root, text, &fetched)
		for range asks {
			name, err := i.program(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(name); err != nil || string(got) != text || !isProgram(name) {
				t.Errorf("%s is %q, %v", name, got, err)
			}
		}
		if keeps {
			if err := i.keepProgram(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(root, ".install-1", "*")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
	for _, row := range []struct {
		name, text string
		asks       int
		keeps      bool
		want       int // times that it was fetched so far
	}{
		{"an install that is not confirmed keeps nothing", "one", 2, false, 1},
		{"the next one keeps what it took for its checks", "one", 2, true, 2},
		{"a run that goes on uses what was kept", "one", 1, true, 2},
		{"another bundle has another one", "two", 1, true, 3},
		{"without checks it is taken for the node alone", "three", 0, true, 4},
	} {
		run(row.text, row.asks, row.keeps)
		if fetched != row.want {
			t.Errorf("%s: fetched %d times, want %d", row.name, fetched, row.want)
		}
		if got, err := os.ReadFile(filepath.Join(root, bundle.PreflightName)); row.keeps && (err != nil || string(got) != row.text) {
			t.Errorf("%s: kept %q, %v", row.name, got, err)
		}
	}
}

func TestProgramIsFoundBesideSealiftOrOnTheNode(t *testing.T) {
	root, beside := t.TempDir(), t.TempDir()
	if got := FindProgram(root, beside); got != "" {
		t.Errorf("found %q", got)
	}
	for _, name := range []string{filepath.Join(root, bundle.PreflightName), filepath.Join(beside, preflight.ProgramName)} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := FindProgram(root, beside); got == name {
			t.Errorf("%s cannot be run", name)
		}
		if err := os.Chmod(name, 0o700); err != nil {
			t.Fatal(err)
		}
		if got := FindProgram(root, beside); got != name {
			t.Errorf("found %q, not %q", got, name)
		}
	}
}
