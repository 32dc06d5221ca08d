package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/server"
	"github.com/sealift/sealift/store"
)

const bothPlatforms = "linux/amd64,linux/arm64"

// twoPlatforms pushes an image for amd64 and arm64, whose layers of these sizes have one in common.
func twoPlatforms(t *testing.T, ref string, common, amd64, arm64 int64) {
	t.Helper()
	shared, err := random.Layer(common, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for arch, size := range map[string]int64{"amd64": amd64, "arm64": arm64} {
		own, err := random.Layer(size, types.OCILayer)
		if err != nil {
			t.Fatal(err)
		}
		img, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), shared, own)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config = config.DeepCopy()
		config.OS, config.Architecture = "linux", arch
		if img, err = mutate.ConfigFile(img, config); err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	to, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(to, index); err != nil {
		t.Fatal(err)
	}
}

// elf is the begin of a program for a machine: 62 is amd64, 183 is arm64.
func elf(machine byte, text string) string {
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x01\x01")
	header[16], header[18] = 2, machine
	return string(header) + text
}

// chosen runs an install script on a host whose uname names this machine, and returns the program that the script took, with its output.
func chosen(t *testing.T, dir string, script []byte, machine string) (program, said string) {
	t.Helper()
	fake := t.TempDir()
	taken := filepath.Join(fake, "taken")
	for name, text := range map[string]string{"uname": "echo Linux " + machine, "chmod": `cp "$2" ` + taken + `; exit 1`} {
		if err := fixture.WriteProgram(filepath.Join(fake, name), "#!/bin/sh\n"+text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", "mount -t tmpfs none /var/lib && exec bash -s airgap")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(string(script))
	if dir == "" {
		cmd = exec.CommandContext(t.Context(), "unshare", "--mount", "bash", "-c", "mount -t tmpfs none /var/lib && exec bash")
		cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader(string(script))
	}
	cmd.Env = append(os.Environ(), "PATH="+fake+":"+os.Getenv("PATH"))
	out, _ := cmd.CombinedOutput()
	text, _ := os.ReadFile(taken)
	return string(text), string(out)
}

// TestOneBundleForTwoPlatforms builds, bundles and serves an add-on for two platforms, and starts installs on hosts of both.
func TestOneBundleForTwoPlatforms(t *testing.T) {
	short.AsRoot(t, "scripts that change a host")
	ref := realregistry.Start(t) + "/app:1"
	twoPlatforms(t, ref, 1000, 20_000, 40_000)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	programs := map[string]string{"amd64": elf(62, "amd64"), "arm64": elf(183, "arm64")}
	for name, text := range map[string]string{
		"addons/app/1.0/Manifest":   "image app " + ref + "\nasset tool-{arch} ./tool-{arch}\nasset notes ./notes\n",
		"addons/app/1.0/install.sh": "app() { install \"$DIR/addons/app/1.0/assets/tool-$SEALIFT_ARCH\" /usr/local/bin/tool; }\n",
		"addons/app/1.0/tool-amd64": strings.Repeat("x", 3000), "addons/app/1.0/tool-arm64": strings.Repeat("y", 5000), "addons/app/1.0/notes": "for all",
		"installer.yaml": "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n  app: {version: '1.0'}\n",
		"a/sealift-node": programs["amd64"], "b/sealift-node": programs["arm64"], "script": "#!/bin/sh\n",
	} {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := func(store, platforms string) {
		t.Helper()
		if code, _, errOut := command(t, "build", at("addons/app/1.0"), "--out", at(store), "--cache", at("cache"), "--platform", platforms); code != app.ExitDone {
			t.Fatal(errOut)
		}
	}
	build("store", bothPlatforms)
	build("single", "linux/amd64")
	bundles := func(store, platforms, sealift string) (code int, said string) {
		code, _, said = command(t, "bundle", "-f", at("installer.yaml"), "--store", at(store), "--out", at("cluster.tar.gz"), "--cache", at("cache"),
			"--platform", platforms, "--sealift", sealift, "--sealift-preflight", "none")
		return code, said
	}
	for what, row := range map[string]struct{ store, platforms, sealift, want string }{
		"a package for one platform": {"single", bothPlatforms, at("a/sealift-node") + "," + at("b/sealift-node"),
			"package app-1.0.tar.gz is for linux/amd64, not for linux/arm64; build it with: sealift build addons/app/1.0 --platform linux/amd64,linux/arm64"},
		"a program is missing":         {"store", bothPlatforms, at("a/sealift-node"), "no sealift for linux/arm64 among " + at("a/sealift-node") + "; name it with --sealift FILE,FILE"},
		"two for one platform":         {"store", bothPlatforms, at("a/sealift-node") + "," + at("a/sealift-node"), "are both for linux/amd64"},
		"a program of other nodes":     {"store", "linux/amd64", at("b/sealift-node"), "is for linux/arm64, and the nodes are linux/amd64"},
		"a file that is not a program": {"store", bothPlatforms, at("a/sealift-node") + "," + at("script"), "not an ELF program"},
		"an unknown platform":          {"store", "linux/amd64,linux/riscv64", at("a/sealift-node"), "one bundle can be for nodes of linux/amd64 and linux/arm64"},
	} {
		if code, said := bundles(row.store, row.platforms, row.sealift); code == app.ExitDone || !strings.Contains(said, row.want) {
			t.Errorf("%s: exit %d, want %q: %s", what, code, row.want, said)
		}
	}
	if code, said := bundles("store", "linux/arm64,linux/amd64", at("b/sealift-node")+","+at("a/sealift-node")); code != app.ExitDone {
		t.Fatal(said)
	}

	code, out, errOut := command(t, "inspect", at("cluster.tar.gz"), "-o", "json")
	var summary archive.Summary
	if err := json.Unmarshal([]byte(out), &summary); code != app.ExitDone || err != nil {
		t.Fatal(err, errOut)
	}
	if len(summary.PlatformSizes) != 2 || summary.PlatformSizes[0].Platform != "linux/amd64" || summary.PlatformSizes[1].Platform != "linux/arm64" {
		t.Fatalf("sizes are %+v", summary.PlatformSizes)
	}
	one, other := summary.PlatformSizes[0], summary.PlatformSizes[1]
	if one.Alone < 20_000 || one.Alone > 30_000 || other.Alone < 40_000 || other.Alone > 50_000 || one.Size-one.Alone != other.Size-other.Alone || one.Size-one.Alone < 1000 {
		t.Errorf("sizes are %+v", summary.PlatformSizes)
	}

	data, err := exec.CommandContext(t.Context(), "tar", "xzf", at("cluster.tar.gz"), "-O", "install.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	front := servesBoth(t, at("store"), map[string]string{"linux/amd64": at("a/sealift-node"), "linux/arm64": at("b/sealift-node")})
	script := posts(t, front, at("installer.yaml"))
	for machine, arch := range map[string]string{"x86_64": "amd64", "aarch64": "arm64"} {
		if got, said := chosen(t, dir, data, machine); got != programs[arch] {
			t.Errorf("install.sh on %s takes %q: %s", machine, got, said)
		}
		if got, said := chosen(t, "", script, machine); got != programs[arch] {
			t.Errorf("the server's script on %s takes %q: %s", machine, got, said)
		}
	}
	if _, said := chosen(t, dir, data, "riscv64"); !strings.Contains(said, "this host is Linux riscv64, the bundle is for linux/amd64, linux/arm64") {
		t.Errorf("on another machine: %s", said)
	}
}

// servesBoth runs a server with programs for two platforms.
func servesBoth(t *testing.T, dir string, files map[string]string) (url string) {
	t.Helper()
	from, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var programs []assemble.Program
	for platform, file := range files {
		member, err := assemble.ProgramMember(t.Context(), bundle.ProgramPath(bundle.BinaryName, platform), file, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = member.Close() })
		programs = append(programs, assemble.Program{Platform: platform, Sealift: member})
	}
	s, err := server.New(t.Context(), server.Options{Packages: packages.Source{Store: from}, Programs: programs, Commands: []string{"install"}})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(s)
	t.Cleanup(func() {
		front.Close()
		_ = s.Close()
	})
	return front.URL
}

// posts stores an Installer on a server, and returns the script of its URL.
func posts(t *testing.T, front, installer string) (script []byte) {
	t.Helper()
	id, err := exec.CommandContext(t.Context(), "curl", "-fsS", "--data-binary", "@"+installer, front+"/installer").Output()
	if err != nil {
		t.Fatal(err)
	}
	if script, err = exec.CommandContext(t.Context(), "curl", "-fsS", strings.TrimSpace(string(id))).Output(); err != nil {
		t.Fatal(err)
	}
	return script
}
