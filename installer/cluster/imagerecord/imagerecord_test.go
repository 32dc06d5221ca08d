package imagerecord_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster/imagerecord"
	"github.com/sealift/sealift/internal/sha256hex"
)

const id = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// written reads the only record of a folder: what it says of each name.
func written(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 || filepath.Base(names[0]) != "sha256-"+sha256hex.Of(id) {
		t.Fatalf("records: %q, %v", names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Kind, APIVersion, ImageRef string
		CredentialMapping          map[string]json.RawMessage
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Kind != "ImagePulledRecord" || r.APIVersion != "kubelet.config.k8s.io/v1beta1" || r.ImageRef != id {
		t.Fatalf("%v: %s", err, data)
	}
	mapping := map[string]string{}
	for name, credentials := range r.CredentialMapping {
		mapping[name] = string(credentials)
	}
	return mapping
}

func TestAllSpellingsOfANameAreAllowed(t *testing.T) {
	for name, want := range map[string][]string{
		"docker.io/library/busybox:1.35.0":          {"busybox", "docker.io/busybox", "docker.io/library/busybox", "library/busybox"},
		"docker.io/rancher/thing@" + id:             {"docker.io/rancher/thing", "rancher/thing"},
		"registry.example:5000/team/app:1@" + id:    {"registry.example:5000/team/app"},
		"registry.k8s.io/kube-apiserver:v1.36.3":    {"registry.k8s.io/kube-apiserver"},
		"registry.example:5000/library/without-tag": {"registry.example:5000/library/without-tag"},
	} {
		dir := filepath.Join(t.TempDir(), "kubelet/image_manager/pulled")
		if err := imagerecord.Allow(dir, id, name); err != nil {
			t.Fatal(err)
		}
		var got []string
		for spelling, credentials := range written(t, dir) {
			got = append(got, spelling)
			if credentials != `{"nodePodsAccessible":true}` {
				t.Errorf("%s: %s needs %s", name, spelling, credentials)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: the record has %q, want %q", name, got, want)
		}
	}
}

// TestSecretsOfOtherNamesStay has a record that the kubelet wrote after it pulled a copy with a secret.
func TestSecretsOfOtherNamesStay(t *testing.T) {
	const secret = `{"kubernetesSecrets":[{"uid":"u","namespace":"team","name":"pull","credentialHash":"h"}]}`
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		dir := t.TempDir()
		place(t, dir, `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/`+version+`","lastUpdatedTime":"2026-01-02T03:04:05Z","imageRef":"`+id+`",`+
			`"credentialMapping":{"registry.example/copy":`+secret+`}}`)
		if err := imagerecord.Allow(dir, id, "registry.k8s.io/pause:3.10"); err != nil {
			t.Fatal(err)
		}
		if got := written(t, dir); len(got) != 2 || got["registry.example/copy"] != secret || got["registry.k8s.io/pause"] != `{"nodePodsAccessible":true}` {
			t.Errorf("%s: %v", version, got)
		}
	}
}

func TestUnusableRecordsAreReplaced(t *testing.T) {
	for name, content := range map[string]string{
		"damaged":          `{"kind":`,
		"empty":            "",
		"of another kind":  `{"kind":"ImagePullIntent","imageRef":"` + id + `"}`,
		"of another image": `{"kind":"ImagePulledRecord","imageRef":"sha256:other","credentialMapping":{"a":{"nodePodsAccessible":true}}}`,
		"without a name":   `{"kind":"ImagePulledRecord","imageRef":"` + id + `"}`,
	} {
		dir := t.TempDir()
		place(t, dir, content)
		if err := imagerecord.Allow(dir, id, "registry.k8s.io/pause:3.10"); err != nil {
			t.Fatal(err)
		}
		if got := written(t, dir); len(got) != 1 || got["registry.k8s.io/pause"] == "" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAllowedNamesAreNotWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	const had = `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2026-01-02T03:04:05Z","imageRef":"` + id +
		`","credentialMapping":{"registry.k8s.io/pause":{"nodePodsAccessible":true}}}`
	place(t, dir, had)
	if err := imagerecord.Allow(dir, id, "registry.k8s.io/pause:3.10", "registry.k8s.io/pause@"+id); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "sha256-"+sha256hex.Of(id)))
	if err != nil || string(data) != had {
		t.Errorf("%v: %s", err, data)
	}
}

func TestUnreadableRecordIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sha256-"+sha256hex.Of(id)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := imagerecord.Allow(dir, id, "a/b"); err == nil || !strings.Contains(err.Error(), "the kubelet's record of image "+id) {
		t.Error(err)
	}
}

func place(t *testing.T, dir, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "sha256-"+sha256hex.Of(id)), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzAllow has any content as the record. After it, the name is allowed, and there is nothing left to do.
func FuzzAllow(f *testing.F) {
	for _, content := range []string{"", "null", `{"kind":"ImagePulledRecord","imageRef":"` + id + `","credentialMapping":{"a":null,"registry.k8s.io/pause":{"nodePodsAccessible":false}}}`} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		dir := t.TempDir()
		place(t, dir, content)
		var after []string
		for range 2 {
			if err := imagerecord.Allow(dir, id, "registry.k8s.io/pause:3.10"); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(filepath.Join(dir, "sha256-"+sha256hex.Of(id)))
			if err != nil {
				t.Fatal(err)
			}
			after = append(after, string(data))
		}
		if credentials := written(t, dir)["registry.k8s.io/pause"]; !strings.Contains(credentials, `"nodePodsAccessible":true`) || after[0] != after[1] {
			t.Errorf("%q became %q", content, after)
		}
	})
}
