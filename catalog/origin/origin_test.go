package origin_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/origin"
	"github.com/sealift/sealift/catalog/template"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
)

func parse(text string) (map[string]origin.Rule, error) {
	r := &strictyaml.Reader{Name: "addon.yaml"}
	root := r.Mapping([]byte(text))
	if root == nil {
		return nil, r.Err()
	}
	return origin.Parse(r, root), r.Err()
}

func TestRulesAreRead(t *testing.T) {
	got, err := parse(`VERSION:
  github: containerd/containerd
  tag: v*
  lines: minor
  endOfLife: {"2.2": 2027-11-06}
  skew:
  - {from: 2.3.0, addOn: kubernetes, atLeast: 1.33.0}
ETCD: {url: "https://example.org/v${VERSION}/x.go", match: 'V = "([^"]+)"', order: kurl}
PACKAGE: {apt: containerd.io, repository: https://example.org/debian bookworm stable}
RPM: {yum: containerd.io, repository: https://example.org/el9}
HELM: {chart: x, repository: "oci://example.org/charts"}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]origin.Rule{
		"VERSION": {Kind: origin.GitHub, Name: "containerd/containerd", Tag: "v*", Order: origin.SemVer, Lines: origin.MinorLine,
			EndOfLife: origin.EndOfLife{Dates: map[string]time.Time{"2.2": time.Date(2027, 11, 6, 0, 0, 0, 0, time.UTC)}},
			Skew:      []origin.Skew{{From: "2.3.0", AddOn: "kubernetes", AtLeast: "1.33.0"}}},
		"ETCD":    {Kind: origin.Page, Name: "https://example.org/v${VERSION}/x.go", Match: `V = "([^"]+)"`, Order: origin.KURL},
		"PACKAGE": {Kind: origin.Apt, Name: "containerd.io", Repository: "https://example.org/debian bookworm stable", Order: origin.Debian},
		"RPM":     {Kind: origin.Yum, Name: "containerd.io", Repository: "https://example.org/el9", Order: origin.KURL},
		"HELM":    {Kind: origin.Chart, Name: "x", Repository: "oci://example.org/charts", Order: origin.SemVer},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !got["ETCD"].Follows() || got["VERSION"].Follows() {
		t.Error("a page whose URL has the version follows it, and nothing else does")
	}
}

func TestMistakesOfRulesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"version: {github: a/b}\n":                                  `1:1: error: upstream: "version" is not the name of a parameter`,
		"V: {}\n":                                                   "upstream V must name one upstream, not 0",
		"V: {github: a/b, image: c}\n":                              "upstream V must name one upstream, not 2",
		"V: {gihub: a/b, image: c}\n":                               `unknown key "gihub" in upstream V (did you mean "github"?)`,
		"V: {github: a}\n":                                          `"a" is not a repository of GitHub (write owner/repository)`,
		"V: {image: a b}\n":                                         `"a b" is not one word`,
		"V: {url: ftp://a, match: (x)}\n":                           `"ftp://a" is not a URL`,
		"V: {url: https://a}\n":                                     "match belongs to url, and url needs it",
		"V: {url: https://a, match: x}\n":                           "match is not a regular expression with one group",
		"V: {url: https://a, match: '('}\n":                         "match is not a regular expression with one group",
		"V: {chart: a}\n":                                           `repository "" is not a URL`,
		"V: {apt: a, repository: https://b}\n":                      "repository does not name a suite and a component",
		"V: {yum: a, repository: oci://b}\n":                        `repository "oci://b" is not a URL`,
		"V: {yum: a, repository: https://b c d}\n":                  `does not belong here`,
		"V: {github: a/b, repository: https://b}\n":                 `does not belong here`,
		"V: {github: a/b, tag: v}\n":                                "tag must have one *",
		"V: {github: a/b, order: semverr}\n":                        `unknown order "semverr" of versions (did you mean "semver"?)`,
		"V: {github: a/b, lines: minor}\n":                          "only VERSION has lines",
		"VERSION: {github: a/b, lines: patch}\n":                    `unknown line "patch" of versions`,
		"V: {github: a/b, endOfLife: {'1': soon}}\n":                `endOfLife: "soon" is not a date`,
		"V: {github: a/b, endOfLife: ../x}\n":                       `endOfLife "../x" is not a product of endoflife.date`,
		"V: {github: a/b, skew: {from: 1}}\n":                       "skew must be a list",
		"V: {github: a/b, skew: [{from: 1, addOn: b, atleast: 2}]}": `unknown key "atleast" in skew (did you mean "atLeast"?)`,
		"V: {github: a/b, skew: [{from: 1, addOn: b}]}":             "skew has no atLeast",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestEveryParameterOfCatalogueHasRule keeps 'sealift addon outdated' from missing a part of the shipped add-ons.
func TestEveryParameterOfCatalogueHasRule(t *testing.T) {
	const addOns = "../../addons"
	entries, err := os.ReadDir(addOns)
	if err != nil || len(entries) < 6 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		tmpl, err := template.Open(filepath.Join(addOns, e.Name()))
		if err != nil {
			t.Error(err)
			continue
		}
		meta, err := catalog.ReadDir(os.DirFS(addOns), e.Name()+"/template", e.Name())
		if err != nil {
			t.Error(err)
		}
		for _, p := range tmpl.Parameters() {
			if _, ruled := meta.Upstream[p]; !ruled {
				t.Errorf("add-on %s: addon.yaml does not say where newer values of %s come from", e.Name(), p)
			}
		}
		for p := range meta.Upstream {
			if !slices.Contains(tmpl.Parameters(), p) {
				t.Errorf("add-on %s: the template has no parameter %s", e.Name(), p)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("VERSION: {github: a/b, tag: v*, lines: minor, endOfLife: {'1': 2027-01-01}, skew: [{from: 1, addOn: b, atLeast: 2}]}\n")
	f.Add("V: {url: https://a, match: '(x)'}\nW: {apt: a, repository: https://a ./}\n")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := parse(text)
		if mistakes := (diag.Errors{}); err != nil && !errors.As(err, &mistakes) {
			t.Fatalf("a mistake without a position: %v", err)
		}
		for name, rule := range rules {
			if err == nil && (rule.Kind == "" || rule.Name == "" || rule.Order == "") {
				t.Errorf("rule %s is not complete: %+v", name, rule)
			}
		}
	})
}
