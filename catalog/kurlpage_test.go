package catalog

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// kurlRows are the rows of docs/kurl.md about kURL's add-ons: what ran, by the add-on's name and version.
func kurlRows(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../docs/kurl.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## What has run\n")
	if !found {
		t.Fatal("docs/kurl.md does not say what has run")
	}
	section, other, found := strings.Cut(section, "\n### Programs that cannot be made here\n")
	if !found {
		t.Fatal("docs/kurl.md does not say which programs cannot be made")
	}
	other, _, _ = strings.Cut(other, "\n## ")
	rows := map[string]string{}
	for columns, text := range map[int]string{1: section, 2: other} {
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if key := strings.TrimSpace(cells[0]); regexp.MustCompile(`^[a-z-]+ v?[0-9]\S*$`).MatchString(key) && len(cells) > columns {
				rows[key] = strings.TrimSpace(cells[columns])
			}
		}
	}
	return rows
}

// TestKurlPageHasNewestVersions compares the page with the versions that 'spec upgrade' proposes.
func TestKurlPageHasNewestVersions(t *testing.T) {
	t.Parallel()
	rows := kurlRows(t)
	seen := map[string]bool{}
	for key := range rows {
		name, version, _ := strings.Cut(key, " ")
		if seen[name] {
			t.Errorf("%s has two rows", name)
		}
		seen[name] = true
		if newest := shipped(name); releases.Of(name, releases.Shipped) == nil && (len(newest) == 0 || newest[len(newest)-1] != version) {
			t.Errorf("the page has %s, and the newest is %q", key, newest)
		}
	}
	for _, name := range []string{"openebs", "longhorn", "rook", "minio", "contour", "ekco", "goldpinger", "sonobuoy", "kotsadm", "weave", "antrea"} {
		if !seen[name] {
			t.Errorf("%s has no row", name)
		}
	}
}

// TestKurlPageNamesLintedAddOns: the add-ons of the cases are those that TestKurlAddOnsPassLint and TestLabServesKurlAddOns read.
func TestKurlPageNamesLintedAddOns(t *testing.T) {
	t.Parallel()
	root := upstreamcases.KurlAddOns(t)
	files, err := filepath.Glob(filepath.Join(root, "addons/*/*/Manifest"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, file := range files {
		version := filepath.Dir(file)
		want = append(want, filepath.Base(filepath.Dir(version))+" "+filepath.Base(version))
	}
	for key, ran := range kurlRows(t) {
		if strings.HasPrefix(ran, "lint, images") {
			got = append(got, key)
		} else if strings.Contains(ran, "lint") {
			t.Errorf("%s: %s", key, ran)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/kurl.md (-cases +page)\n%s", diff)
	}
}
