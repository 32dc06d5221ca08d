package install

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// otherPlatform is one that this host does not have.
func otherPlatform(t *testing.T) string {
	t.Helper()
	return (&job{}).foreignPlatforms()[0]
}

func hasKubernetes() []addOn {
	return []addOn{{info: bundle.PackageInfo{Name: kubernetesCapability}}}
}

// forPlatforms is an install of a bundle with a sealift and a sealift-preflight for each of these platforms.
func forPlatforms(t *testing.T, root string, worker bool, platforms ...string) *Install {
	t.Helper()
	var list []bundle.File
	for _, p := range platforms {
		for _, name := range []string{bundle.BinaryName, bundle.PreflightName} {
			list = append(list, bundle.BytesFile(bundle.ProgramPath(name, p), 0o755, []byte(name+" of "+p)))
		}
	}
	members, err := bundle.Render(t.Context(), list, bundle.WriteOptions{})
	var packed bytes.Buffer
	if err == nil {
		_, err = bundle.WriteBundle(t.Context(), &packed, bundle.Bundle{Members: members})
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Scope: node.Scope{Root: root}, Binary: filepath.Join(root, ".install-1", "sealift")}
	if worker {
		options.Join = &Join{}
	}
	return &Install{job: job{options: options, contents: contents{archive: a, addOns: hasKubernetes()}}, Session: &node.Session{Log: node.NewLog(t.TempDir(), lifecycle.Installing, nil)}}
}

func TestControlPlaneKeepsProgramsOfOtherPlatforms(t *testing.T) {
	root, other := t.TempDir(), otherPlatform(t)
	for _, row := range []struct {
		name      string
		worker    bool
		platforms []string
		want      []string
	}{
		{"a control plane", false, []string{host.Platform, other}, []string{host.Platform, other}},
		{"again", false, []string{host.Platform, other}, []string{host.Platform, other}},
		{"a later bundle for one platform", false, []string{host.Platform}, []string{host.Platform}},
		{"a worker", true, []string{host.Platform, other}, []string{host.Platform}},
	} {
		i := forPlatforms(t, root, row.worker, row.platforms...)
		if err := i.keepProgram(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{host.Platform, other} {
			kept, err := os.ReadFile(filepath.Join(root, bundle.ProgramPath(bundle.PreflightName, p)))
			if want := slices.Contains(row.want, p); (err == nil) != want || want && string(kept) != bundle.PreflightName+" of "+p {
				t.Errorf("%s: sealift-preflight for %s is %q, %v", row.name, p, kept, err)
			}
			_, err = os.Stat(filepath.Join(root, bundle.ProgramPath(bundle.BinaryName, p)))
			if want := p == other && slices.Contains(row.want, p); (err == nil) != want {
				t.Errorf("%s: sealift for %s is there: %t, want %t", row.name, p, err == nil, want)
			}
		}
		name, err := i.program(t.Context())
		if err != nil || name != filepath.Join(root, bundle.ProgramPath(bundle.PreflightName, host.Platform)) {
			t.Errorf("%s: checks run %s, %v", row.name, name, err)
		}
	}
	if i := forPlatforms(t, root, false, host.Platform); i.Sealift(other) != "" {
		t.Error("a bundle for one platform has a sealift for another")
	}
}

func TestFilesOfOtherPlatformsGoToControlPlanesAlone(t *testing.T) {
	const dir = "addons/app/1/"
	a := addOn{info: bundle.PackageInfo{Name: "app", Version: "1"}, platforms: map[string][]string{
		dir + "images/blobs/sha256/own": {host.Platform}, dir + "images/blobs/sha256/other": {otherPlatform(t)},
		dir + "images/blobs/sha256/both": {host.Platform, otherPlatform(t)}, dir + "assets/own": {host.Platform}, dir + "assets/other": {otherPlatform(t)},
	}}
	for name, join := range map[string]*Join{"a control plane": nil, "a worker": {}} {
		j := &job{options: Options{Join: join}, contents: contents{addOns: hasKubernetes()}}
		for path, want := range map[string]bool{
			"images/blobs/sha256/own": false, "images/blobs/sha256/both": false, "images/blobs/sha256/index": false, "images/blobs/sha256/other": join == nil,
			"assets/own": true, "assets/all": true, "install.sh": true, "assets/other": join == nil,
		} {
			if got := j.onNode(a, bundle.Entry{Path: dir + path}); got != want {
				t.Errorf("%s extracts %s: %t, want %t", name, path, got, want)
			}
		}
	}
}
