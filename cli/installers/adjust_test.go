package installers

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/node"
	"github.com/sealift/sealift/spec"
)

func TestWordsOfAbsentAddOnsAreNoted(t *testing.T) {
	i, err := spec.Parse("i", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var notes bytes.Buffer
	j := Adjustment{notes: &notes}
	j.Take([]string{"velero-restic-timeout=1h", "ekco-enable-internal-load-balancer", "ha", "labels=a=b,c=d"})
	changed, err := j.Apply(i)
	if err != nil {
		t.Fatal(err)
	}
	const want = "note: velero-restic-timeout has no effect: the Installer does not have its add-on\n" +
		"note: ekco-enable-internal-load-balancer has no effect: the Installer does not have its add-on\n"
	if notes.String() != want {
		t.Errorf("got %s", &notes)
	}
	if labels, _ := changed.Section("kurl").Options["nodeLabels"].([]any); len(labels) != 2 || labels[1] != "c=d" {
		t.Errorf("labels: %v", labels)
	}
}

// kURL's install.sh takes them (get_patch_yaml), and so do the commands that it prints.
func TestForeignWordsAreNoted(t *testing.T) {
	for word := range ForeignWords() {
		i, err := spec.Parse("i", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3}\n"))
		if err != nil {
			t.Fatal(err)
		}
		var notes bytes.Buffer
		j := Adjustment{notes: &notes}
		j.Take([]string{word + "=10.0.0.1", "ha"})
		changed, err := j.Apply(i)
		if err != nil || changed.AddOn("kubernetes").Options["HACluster"] != true || !strings.HasPrefix(notes.String(), "note: "+word+" has no effect: ") {
			t.Errorf("%s: %v, %s", word, err, &notes)
		}
	}
	if len(ForeignWords()) != 7 {
		t.Errorf("%d words", len(ForeignWords()))
	}
}

func TestKurlsInstallDirectoryIsTheInstallRoot(t *testing.T) {
	for name, row := range map[string]struct{ root, word, want string }{
		"neither":             {node.DefaultRoot, "", node.DefaultRoot},
		"kURL's word":         {node.DefaultRoot, "/data", "/data/kurl"},
		"the flag":            {"/srv", "", "/srv"},
		"both":                {"/srv", "/data", ""},
		"no path":             {node.DefaultRoot, "data", ""},
		"a path with a slash": {node.DefaultRoot, "/data/", "/data/kurl"},
	} {
		j := Adjustment{}
		if row.word != "" {
			j.Take([]string{"kurl-install-directory=" + row.word})
		}
		got, err := Root(row.root, j.Folder)
		if got != row.want || (err != nil) != (row.want == "") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
