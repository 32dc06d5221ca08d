package sealift_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/releases"
)

// others are versions that pages name and the table of releases lacks, and why.
var others = map[string]string{
	"kubernetes 1.19.9":    "an Installer of kURL",
	"kubernetes 1.5.8":     "a rule of a channel",
	"containerd 2.2.6":     "kURL's add-on",
	"cert-manager 1.21.0":  "kURL's add-on",
	"containerd 9.9.9":     "a package that does not exist",
	"flannel 0.28.7":       "kURL's add-on",
	"metrics-server 0.8.1": "kURL's add-on",
	"prometheus 0.92.1":    "kURL's add-on",
	"registry 3.1.1":       "kURL's add-on",
	"velero 1.18.2":        "kURL's add-on",
}

// addOnVersion finds the version of an add-on: in an Installer, in a path, in the name of a package, or in a sentence.
var addOnVersion = func() *regexp.Regexp {
	var names []string
	for _, r := range releases.All() {
		if r.Use != releases.Tool {
			names = append(names, regexp.QuoteMeta(r.Name), regexp.QuoteMeta(installerKey(r.Name)))
		}
	}
	return regexp.MustCompile(`(?i)\b(` + strings.Join(names, "|") + `)(?:[-/ ]v?|: \{version: |:\n +version: )"?(\d+\.\d+\.\d+)\b`)
}()

// installerKey is the add-on's name in an Installer: localPathProvisioner for local-path-provisioner.
func installerKey(name string) string {
	words := strings.Split(name, "-")
	for n, word := range words[1:] {
		words[n+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// named lists the add-on versions in a text, such as "kubernetes 1.36.3".
func named(text string) (list []string) {
	for _, found := range addOnVersion.FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(found[1])
		for _, r := range releases.All() {
			if strings.EqualFold(found[1], installerKey(r.Name)) {
				name = r.Name
			}
		}
		list = append(list, name+" "+found[2])
	}
	return list
}

// TestPagesNameKnownReleases finds pages that were left behind when the table of releases changed. The changelog may name old releases.
func TestPagesNameKnownReleases(t *testing.T) {
	known := map[string]bool{}
	for _, r := range releases.All() {
		known[r.Name+" "+r.Version] = true
	}
	used := map[string]bool{}
	files(t, ".md", func(path, text string) {
		if path == "CHANGELOG.md" {
			return
		}
		for _, version := range named(text) {
			if _, other := others[version]; other {
				used[version] = true
			} else if !known[version] {
				t.Errorf("%s names %s, which internal/releases/releases.txt lacks", path, version)
			}
		}
	})
	for version, why := range others {
		if !used[version] {
			t.Errorf("no page names %s (%s) any more", version, why)
		}
	}
}

// TestReadmeAndDemoInstallCurrentReleases covers the first things that a new user runs. The README's table has the tested versions, too.
func TestReadmeAndDemoInstallCurrentReleases(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	uses := map[string]releases.Use{}
	for _, r := range releases.All() {
		uses[r.Name+" "+r.Version] = r.Use
	}
	for name, least := range map[string]releases.Use{"testgrid/demo/installer.yaml": releases.Default, "testgrid/demo/tests.yaml": releases.Tested} {
		versions := named(read(name))
		if len(versions) < 5 {
			t.Errorf("%s has only %q", name, versions)
		}
		for _, version := range versions {
			if uses[version] < least {
				t.Errorf("%s has %s, which internal/releases/releases.txt does not make the current or a tested one", name, version)
			}
		}
	}
	readme, shipped := read("README.md"), 0
	for _, r := range releases.All() {
		if r.Use >= releases.Shipped {
			shipped++
		}
		if r.Use >= releases.Tested && r.Name != "operator" && !strings.Contains(readme, r.Version) {
			t.Errorf("README.md does not name %s %s", r.Name, r.Version)
		}
	}
	for _, found := range regexp.MustCompile(`addons/[a-z-]+/[0-9.]+[0-9]|--kubernetes v[0-9.]+|(?m)^  \w+:\n +version: \S+$`).FindAllString(readme, -1) {
		for _, version := range named(found) {
			if uses[version] != releases.Default {
				t.Errorf("README.md installs %s, which is not current in internal/releases/releases.txt", version)
			}
		}
	}
	if want := fmt.Sprintf("\n%d Manifests, no errors", shipped); !strings.Contains(readme, want) {
		t.Errorf("README.md does not have %q, as 'sealift manifest lint addons' prints", want)
	}
}

// TestPageSaysWhatRanTogether requires the versions of what every cluster has in the table of docs/targets.md.
func TestPageSaysWhatRanTogether(t *testing.T) {
	page, err := os.ReadFile("docs/targets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Which versions ran together\n")
	if !found {
		t.Fatal("docs/targets.md does not say which versions ran together")
	}
	for _, name := range []string{"kubernetes", "containerd", "flannel"} {
		for _, r := range releases.Of(name, releases.Lab) {
			if !regexp.MustCompile(`[| ]` + regexp.QuoteMeta(r.Version) + `[ ,]`).MatchString(section) {
				t.Errorf("docs/targets.md does not say with what %s %s ran", name, r.Version)
			}
		}
	}
}

// TestUpgradePageHasCurrentVersions requires the upgrade to the current Kubernetes in what docs/upgrade.md shows; 'make grid' runs it.
func TestUpgradePageHasCurrentVersions(t *testing.T) {
	page, err := os.ReadFile("docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	current := releases.Current("kubernetes")
	before := current.Before().Version
	for _, line := range []string{
		fmt.Sprintf("\nKubernetes %s -> %s, at most", before, current.Version),
		fmt.Sprintf("\nKubernetes %s -> %s, led by", before, current.Version),
		"\ndone: the cluster runs Kubernetes " + before + " again",
	} {
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/upgrade.md lacks %q", line)
		}
	}
}
