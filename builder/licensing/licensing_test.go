package licensing_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/license"
	"github.com/sealift/sealift/builder/licensing"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/fixture"
)

const copyright = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: GPL-3+\n"

// look reads a package with an image of Debian that has a program and its license, and an image of nothing that is known.
func look(t testing.TB) (*licensing.Report, *licensing.Texts) {
	t.Helper()
	apache, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	program := string(fixture.GoProgram("go1.26.1", "path example.org/tool", "dep github.com/a/b v1.0.0 h1:a"))
	debian := fixture.Layer(t, [2]string{"etc/os-release", "ID=debian\nVERSION_ID=12\n"},
		[2]string{"var/lib/dpkg/status", "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2-1\n\nPackage: odd\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n"},
		[2]string{"usr/share/doc/bash/copyright", copyright}, [2]string{"usr/share/common-licenses/Apache-2.0", string(apache)})
	a, err := bundle.Open(fixture.ImagePackage(t, map[string][][]byte{
		"example.org/app:1":  {debian, fixture.Layer(t, [2]string{"usr/bin/tool", program}, [2]string{"licenses/github.com/a/b/LICENSE", string(apache)}, [2]string{"app/LICENSE", string(apache)})},
		"example.org/same:1": {debian},
		"k8s.io/pause:1":     {fixture.Layer(t, [2]string{"pause", "\x7fELF and more"})},
	}, map[string][]byte{"addon.yaml": []byte("description: x\nlicense: MIT OR GPL-3.0-or-later\n")}, bundle.WriteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	texts, err := licensing.NewTexts()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = texts.Close() })
	listed, err := inventory.Read(t.Context(), a, inventory.Options{Keep: texts.Keep})
	if err != nil {
		t.Fatal(err)
	}
	report, err := licensing.Of(a, listed)
	if err != nil {
		t.Fatal(err)
	}
	return report, texts
}

func TestUnknownLicensesComeFirst(t *testing.T) {
	r, _ := look(t)
	var lines []string
	for _, c := range r.Components {
		lines = append(lines, fmt.Sprintf("%s %s %s %d", c.License, c.Kind, c.Name, len(c.Places)))
	}
	want := `NOASSERTION image example.org/app:1 1
NOASSERTION image example.org/same:1 1
NOASSERTION image k8s.io/pause:1 1
NOASSERTION module stdlib 1
NOASSERTION package odd 2
MIT OR GPL-3.0-or-later add-on app 1
Apache-2.0 file /app/LICENSE 1
Apache-2.0 module github.com/a/b 1
GPL-3.0-or-later package bash 2`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	lines = nil
	for _, l := range r.Licenses {
		lines = append(lines, fmt.Sprintf("%s %d %d", l.ID, len(l.Components), len(l.Texts)))
	}
	if got, want := strings.Join(lines, "\n"), "NOASSERTION 5 0\nApache-2.0 2 1\nGPL-3.0-or-later 2 0\nMIT 1 0"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(r.Unread) != 1 || !strings.HasPrefix(r.Unread[0], "image k8s.io/pause:1 linux/amd64: it has neither") {
		t.Errorf("not looked into: %q", r.Unread)
	}
}

func TestPolicyNamesPlaces(t *testing.T) {
	r, _ := look(t)
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		policy  license.Policy
		refused []string // ends with the place
		permits int
	}{
		"none":                     {license.Policy{}, nil, 0},
		"a package in two images":  {license.Policy{Forbidden: []string{"GPL-3.0-or-later"}}, []string{"image example.org/app:1 linux/amd64: package bash 5.2-1 (/var/lib/dpkg/status of layer", "image example.org/same:1 linux/amd64: package bash 5.2-1 ("}, 0},
		"an exception for one":     {license.Policy{Forbidden: []string{"GPL-3.0-or-later"}, Exceptions: []license.Exception{{License: "GPL-3.0-or-later", Image: "example.org/app", Until: now}}}, []string{"image example.org/same:1"}, 1},
		"words of a file":          {license.Policy{Forbidden: []string{"Apache-2.0"}}, []string{"image example.org/app:1 linux/amd64: file /app/LICENSE (", "image example.org/app:1 linux/amd64: module github.com/a/b v1.0.0 ("}, 0},
		"what states nothing":      {license.Policy{Forbidden: []string{license.NoAssertion}}, []string{"image k8s.io/pause:1 states no license", "image example.org/app:1 linux/amd64: package odd 1 (", "image example.org/same:1 linux/amd64: package odd 1 ("}, 0},
		"what an add-on can avoid": {license.Policy{Forbidden: []string{"MIT"}}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			refused, permitted := r.Judge(row.policy, now)
			if len(refused) != len(row.refused) || len(permitted) != row.permits {
				t.Fatalf("refused %v, permitted %v", refused, permitted)
			}
			for n, one := range refused {
				if !strings.HasPrefix(one.String(), row.refused[n]) {
					t.Errorf("got %s, want %s", one, row.refused[n])
				}
			}
			if err := r.Check(row.policy, "sealift.yaml", now); (err != nil) != (len(row.refused) > 0) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestArchiveHasEachTextOnce also writes it twice.
func TestArchiveHasEachTextOnce(t *testing.T) {
	r, texts := look(t)
	var first, again bytes.Buffer
	if err := errors.Join(texts.WriteArchive(&first, r), texts.WriteArchive(&again, r)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Error("the second archive has other bytes")
	}
	z, err := gzip.NewReader(&first)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = string(data)
	}
	if len(r.Texts) != 2 || len(found) != 3 || !strings.Contains(found["licenses.json"], `"example.org/same:1"`) {
		t.Fatalf("%d texts, %d files", len(r.Texts), len(found))
	}
	for _, text := range r.Texts {
		content := found["texts/"+text.SHA256+".txt"]
		if int64(len(content)) != text.Size || content != copyright && !strings.Contains(content, "Apache License") {
			t.Errorf("%s has %d bytes", text.SHA256, len(content))
		}
	}
}
