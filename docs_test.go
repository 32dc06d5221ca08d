package sealift_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	kopsRule    = regexp.MustCompile(`\bK-[0-9]+\b`)
	hookRule    = regexp.MustCompile(`\b[SA]-[0-9]+\b`)
	fleetRule   = regexp.MustCompile(`\b[OXC]-[0-9]+\b`)
	kurlSection = regexp.MustCompile(`kURL(?:'s)? \(?§[0-9.]*[0-9](?:,? (?:and )?§[0-9.]*[0-9])*`)
	section     = regexp.MustCompile(`§([0-9.]*[0-9])`)
	anchor      = regexp.MustCompile(`<a id="([^"]+)">`)
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced      = regexp.MustCompile("(?ms)^```.*?^```$")
)

// files calls visit with every file below the repository whose name ends in extension.
func files(t *testing.T, extension string, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != extension {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			visit(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// anchors are the link targets of a page: its headings, as GitHub names them, and explicit ones.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, a := range anchor.FindAllStringSubmatch(string(text), -1) {
		all[a[1]] = true
	}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		all[strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return all
}

func TestCitedRulesAreInReference(t *testing.T) {
	kurl := anchors(t, "docs/reference/kurl.md")
	cited := 0
	families := []struct {
		rule        *regexp.Regexp
		page, below string
	}{
		{kopsRule, "docs/reference/kops.md", ""},
		{hookRule, "docs/reference/operator.md", "operator/"},
		{hookRule, "docs/reference/operator.md", "helm/"},
		{fleetRule, "docs/reference/fleet.md", ""},
	}
	defined := map[string]map[string]bool{}
	for _, f := range families {
		defined[f.page] = anchors(t, f.page)
	}
	files(t, ".go", func(path, text string) {
		if path == "docs_test.go" {
			return
		}
		for _, f := range families {
			if !strings.HasPrefix(path, f.below) {
				continue
			}
			for _, rule := range f.rule.FindAllString(text, -1) {
				if cited++; !defined[f.page][rule] {
					t.Errorf("%s cites %s, which %s lacks", path, rule, f.page)
				}
			}
		}
		for _, citation := range kurlSection.FindAllString(text, -1) {
			for _, s := range section.FindAllStringSubmatch(citation, -1) {
				if cited++; !kurl[s[1]] {
					t.Errorf("%s cites kURL §%s, which docs/reference/kurl.md lacks", path, s[1])
				}
			}
		}
	})
	if cited == 0 {
		t.Fatal("no comment cites a rule: this test looks for the wrong thing")
	}
}

func TestPageLinksResolve(t *testing.T) {
	files(t, ".md", func(path, text string) {
		for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target, fragment, _ := strings.Cut(l[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			page := path
			if target != "" {
				page = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(page); err != nil {
				t.Errorf("%s links to %s: %v", path, l[1], err)
			} else if fragment != "" && !anchors(t, page)[fragment] {
				t.Errorf("%s links to %s, but %s has no such heading", path, l[1], page)
			}
		}
	})
}

func TestContributingNamesEveryRoom(t *testing.T) {
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	files(t, ".go", func(path, _ string) {
		if room, _, below := strings.Cut(path, "/"); below && !strings.Contains(string(page), " "+room+"/") {
			t.Errorf("%s lies in a room that CONTRIBUTING.md does not name: %s/", path, room)
		}
	})
}

// TestBookListsEveryPage keeps pages reachable: those of docs from the book, the others from the book or the README.
func TestBookListsEveryPage(t *testing.T) {
	linked := map[string]bool{}
	for _, page := range []string{"docs/README.md", "README.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			if target := filepath.Join(filepath.Dir(page), l[1]); page == "docs/README.md" || !strings.HasPrefix(target, "docs/") {
				linked[target] = true
			}
		}
		if page == "README.md" && !strings.Contains(string(text), "](docs/README.md)") {
			t.Errorf("README.md has no link to docs/README.md")
		}
	}
	files(t, ".md", func(path, _ string) {
		if path != "README.md" && path != "docs/README.md" && !linked[path] {
			t.Errorf("docs/README.md has no link to %s", path)
		}
	})
}

// TestPagesBeginWithTheirPurpose requires a title and then a sentence, not a heading, a table or a block.
func TestPagesBeginWithTheirPurpose(t *testing.T) {
	sentence := regexp.MustCompile("^# [^\n]+\n\n[A-Za-z`'][^\n]")
	files(t, ".md", func(path, text string) {
		if strings.HasPrefix(path, "docs/") && !sentence.MatchString(text) {
			t.Errorf("%s: the line below the title does not say what the page is for", path)
		}
	})
}
