package spec_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
)

func canonical(t testing.TB, i *spec.Installer) string {
	t.Helper()
	text, err := i.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func id(t testing.TB, i *spec.Installer) string {
	t.Helper()
	id, err := i.ID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestCanonicalSortsAndQuotes(t *testing.T) {
	got := canonical(t, parse(t, `{kind: Installer, apiVersion: sealift.dev/v1, metadata: {name: "7"}, spec: {
  kubernetes: {maxPodsPerNode: 110, version: 1.20}, kurl: {airgap: true, nameserver: null},
  cert-manager: {version: 1.9.1}, ufw: {disableUFW: true}, app: {version: v1, motd: "a\nb\n", on: "true"}}}`))
	const want = `apiVersion: sealift.dev/v1
kind: Installer
metadata:
  name: "7"
spec:
  app:
    version: v1
    motd: |
      a
      b
    "on": "true"
  certManager:
    version: 1.9.1
  kubernetes:
    version: "1.20"
    maxPodsPerNode: 110
  kurl:
    airgap: true
  ufwConfig:
    disableUFW: true
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestIDIgnoresSpelling(t *testing.T) {
	base := parse(t, document("  kubernetes: {version: 1.36.3, HACluster: true}\n  flannel: {version: 0.26.7}\n"))
	if got := id(t, base); len(got) != spec.IDLength || strings.Trim(got, "0123456789abcdef") != "" {
		t.Fatalf("ID %q is not of %d hexadecimal digits", got, spec.IDLength)
	}
	same := map[string]string{
		"another order":       document("  flannel: {version: 0.26.7}\n  kubernetes: {HACluster: true, version: \"1.36.3\"}\n"),
		"a name":              "metadata: {name: prod}\n" + document("  kubernetes: {version: 1.36.3, HACluster: true}\n  flannel: {version: 0.26.7}\n"),
		"kURL's API version":  strings.Replace(document("  kubernetes: {version: 1.36.3, HACluster: true}\n  flannel: {version: 0.26.7}\n"), "sealift.dev/v1", spec.KurlAPIVersion, 1),
		"an option left open": document("  kubernetes: {version: 1.36.3, HACluster: true, certKey: null}\n  flannel: {version: 0.26.7}\n"),
	}
	for name, text := range same {
		if got := id(t, parse(t, text)); got != id(t, base) {
			t.Errorf("%s changes the ID", name)
		}
	}
	for name, text := range map[string]string{
		"another version": document("  kubernetes: {version: 1.36.4, HACluster: true}\n  flannel: {version: 0.26.7}\n"),
		"another option":  document("  kubernetes: {version: 1.36.3, HACluster: false}\n  flannel: {version: 0.26.7}\n"),
	} {
		if got := id(t, parse(t, text)); got == id(t, base) {
			t.Errorf("%s keeps the ID", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(document("  kubernetes: {version: 1.36.3, HACluster: true, maxPodsPerNode: 7}\n  app: {version: v1, a: [1, {b: 2.5}], c: 2025-10-15}\n")))
	f.Add([]byte(document("  kurl:\n    airgap: true\n    hostPreflights: {spec: {a: null}}\n  ufw: {disableUFW: yes}\n")))
	f.Add([]byte(document("  x: {version: \"1\", y: \"a\\nb \", z: !!str 5, w: 0x10, v: .inf, u: 1e3, t: ~}\n")))
	f.Add([]byte(legacyInstaller("  weave: {version: 1, encryptNetwork: true, IPAllocRange: 10.0.0.0/8}\n  docker: {version: '', additionalNoProxy: 'a,b'}\n  kurl: {additionalNoProxyAddresses: [c], task: x, bypassFirewalldWarning: true}\n  contour:\n")))
	f.Add([]byte("a: &b [*b]\n--- \n<<: {}\n? [x]\n: y\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		i, err := spec.Parse("f", bytes.NewReader(data))
		if err != nil {
			if _, ok := errors.AsType[diag.Errors](err); !ok {
				t.Fatalf("a mistake in the document without a position: %v", err)
			}
			return
		}
		text, err := i.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		again, err := spec.Parse("f", bytes.NewReader(text))
		if err != nil {
			t.Fatalf("canonical form is refused: %v\n%s", err, text)
		}
		if diff := cmp.Diff(i.Variables(), again.Variables()); diff != "" {
			t.Errorf("variables change (-read +reread)\n%s", diff)
		}
		sorted := cmpopts.SortSlices(func(a, b spec.AddOn) bool { return a.Key < b.Key })
		sections := cmpopts.SortSlices(func(a, b spec.Section) bool { return a.Key < b.Key })
		if diff := cmp.Diff(i, again, sorted, sections, cmpopts.IgnoreTypes(diag.Pos{}, []diag.Finding{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Installer changes (-read +reread)\n%s", diff)
		}
		if twice := canonical(t, again); twice != string(text) {
			t.Errorf("canonical form changes:\n%s\n%s", text, twice)
		}
	})
}

// TestIndentedTextsAreKept has scripts as people write them into host checks: go-yaml cannot read its own output of them.
func TestIndentedTextsAreKept(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a script":            "  if true; then\n    ls\n  fi\n",
		"a script with tabs":  "\tif true; then\n\t\tls\n\tfi\n",
		"an empty line":       "\n\tls\n",
		"a space and a tab":   " \t\nls",
		"several empty lines": "\n\n\nls",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := parse(t, fmt.Sprintf(`{kind: Installer, apiVersion: sealift.dev/v1, metadata: {name: x}, spec: {app: {version: v1, motd: %q, args: ["-c", %q]}}}`, text, text))
			again := parse(t, canonical(t, i))
			if diff := cmp.Diff(i.AddOns[0].Options, again.AddOns[0].Options); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if canonical(t, again) != canonical(t, i) {
				t.Error("a second time it is written in another way")
			}
		})
	}
}
