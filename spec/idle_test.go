package spec

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// TestUnreadOptionsAreNamed compares the options of kURL's Installer with their readers: Sealift itself, the functions that
// hooks call, the catalogue's add-ons, and kURL's own. kURL's add-ons that are not here are not mentioned.
func TestUnreadOptionsAreNamed(t *testing.T) {
	kurl := upstreamcases.KurlAddOns(t)
	hooks, addOns := texts(t, kurl), []string{"kubernetes", "docker"}
	folders, err := os.ReadDir(filepath.Join(kurl, "addons"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		addOns = append(addOns, f.Name())
	}
	program := ""
	for _, place := range []string{"../installer", "../addons", "../preflight", "execution.go"} {
		program += texts(t, place)
	}
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`[A-Z][A-Z0-9_]+`).FindAllString(program+hooks, -1) {
		words[word] = true
	}
	looked, unread := 0, 0
	for _, s := range sections() {
		if !s.versionless && !slices.Contains(addOns, AddOnName(s.key)) {
			continue
		}
		for _, field := range s.fields {
			if field.key == "s3Override" {
				continue
			}
			looked++
			variable := field.variableName(s.key)
			read := words[variable] || strings.Contains(program, `"`+field.key+`"`)
			if _, idle := idleOptions()[s.key+"."+field.key]; !read && !idle {
				t.Errorf("nothing reads %s.%s (%s), and no warning names it", s.key, field.key, variable)
			} else if !read {
				unread++
			}
		}
	}
	if looked < 80 || unread < 15 {
		t.Errorf("looked at %d options, of which nothing reads %d", looked, unread)
	}
}

// texts returns the content of the files in a folder, or of one file, without tests.
func texts(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// Every option without effect exists, and has a remedy.
func TestIdleOptionsExist(t *testing.T) {
	for name, hint := range idleOptions() {
		key, option, _ := strings.Cut(name, ".")
		s, listed := known(key)
		if _, there := s.field(option); !listed || !there || s.key != key || hint == "" {
			t.Errorf("%s: %q", name, hint)
		}
	}
}

func TestDisabledOptionsAreNotNamed(t *testing.T) {
	i, err := Parse("i", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3, certKey: '', bootstrapToken: ''}\n"+
		"  ekco: {version: 0.28.14, podImageOverrides: [], enableInternalLoadBalancer: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if idle := i.Idle(); len(idle) != 1 || idle[0].Name != "ekco.enableInternalLoadBalancer" || idle[0].Pos.Line != 5 {
		t.Errorf("got %+v", idle)
	}
}
