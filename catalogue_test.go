package sealift_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/releases"
)

// catalogueTable is the table of docs/addons/README.md: a row for each add-on, from its addon.yaml, the table of releases and the names of
// its tests.
func catalogueTable(t *testing.T) (rows []string) {
	t.Helper()
	all, err := catalog.Scan(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]catalog.Meta{}
	var names []string
	for _, m := range all {
		if by[m.Name] == nil {
			names = append(names, m.Name)
		}
		by[m.Name] = append(by[m.Name], m)
	}
	slices.Sort(names)
	for _, name := range names {
		newest := by[name][len(by[name])-1]
		if newest.License == "" {
			t.Errorf("%s has no license in its addon.yaml", newest.Dir())
		}
		shown := name
		if _, err := os.Stat("docs/addons/" + name + ".md"); err == nil {
			shown = "[" + name + "](" + name + ".md)"
		}
		var versions []string
		for _, m := range slices.Backward(by[name]) {
			versions = append(versions, m.Version+" "+proof(t, m))
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |", shown, newest.Description, strings.Join(newest.Provides, ", "), strings.Join(newest.Requires, ", "),
			strings.Join(versions, "<br>"), newest.License, strings.Join(gridTests(t, newest), "<br>")))
	}
	return rows
}

// proof says when tests install a version.
func proof(t *testing.T, m catalog.Meta) string {
	t.Helper()
	for _, r := range releases.Of(m.Name, releases.Lab) {
		if r.Version == m.Version {
			return map[releases.Use]string{releases.Default: "every change", releases.Tested: "every change", releases.Shipped: "`make grid`"}[r.Use]
		}
	}
	t.Errorf("%s is not in the table of releases", m.Dir())
	return ""
}

// gridTests are the names of the tests in an add-on's testgrid.yaml.
func gridTests(t *testing.T, m catalog.Meta) (names []string) {
	t.Helper()
	text, err := os.ReadFile(m.Dir() + "/testgrid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tests []struct{ Name string }
	if err := yaml.Unmarshal(text, &tests); err != nil {
		t.Fatal(err)
	}
	for _, one := range tests {
		names = append(names, one.Name)
	}
	return names
}

// TestPageListsCatalogue keeps docs/addons/README.md what the catalogue is. The message has the rows to paste.
func TestPageListsCatalogue(t *testing.T) {
	page, err := os.ReadFile("docs/addons/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| add-on |") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := catalogueTable(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/addons/README.md (-catalogue +page)\n%s\nthe table is now\n%s", diff, strings.Join(want, "\n"))
	}
}

// TestLivenessProbesAllowSlowHosts: a host that is ten times slower than usual needs seconds for an answer, and half a minute to start a
// program. There, a probe that allows less ends what works.
func TestLivenessProbesAllowSlowHosts(t *testing.T) {
	files, err := filepath.Glob("addons/*/*/yaml/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
			var workload appsv1.Deployment // a DaemonSet and a StatefulSet have their pods at the same place
			if err := yaml.Unmarshal(document, &workload); err != nil {
				continue // a template, or something else
			}
			for _, c := range workload.Spec.Template.Spec.Containers {
				probe := c.LivenessProbe
				if probe == nil || c.Image == "" { // without an image, it is a patch
					continue
				}
				found++
				if probe.TimeoutSeconds < 5 || c.StartupProbe == nil && probe.InitialDelaySeconds < 30 {
					t.Errorf("%s: the liveness probe of %s needs timeoutSeconds of at least 5, and a startupProbe or initialDelaySeconds of at least 30", file, c.Name)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no add-on has a liveness probe")
	}
}
