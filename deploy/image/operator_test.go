package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
)

// imageHook needs what many hooks need: bash, jq, sed, coreutils, a plain shell, and the library.
const imageHook = `#!/usr/bin/env bash
source /shell_lib.sh
function __config__() { echo '{configVersion: v1, onStartup: 1}'; }
function __on_startup() {
    source /frameworks/shell/context.sh
    source /frameworks/shell/hook.sh
    [[ $(context::get 'binding | length') == 9 ]]
    printf '%s %s %s\n' "$(jq -r '.[0].binding' "$BINDING_CONTEXT_PATH" | sed s/on/after/)" "$(sh -c 'echo plain | grep -c plain')" "$(id -u)"
}
hook::run "$@"
`

// TestOperatorImageRunsHook makes the image twice, with packages of Debian's archive, and runs a hook in its files.
func TestOperatorImageRunsHook(t *testing.T) {
	short.Root(t, "chroot")
	o := operatorOptions{options: settings(t), cache: filepath.Join(t.TempDir(), "packages")}
	o.binary = o.options.binary
	hooks := filepath.Join(t.TempDir(), "hooks")
	if err := os.MkdirAll(filepath.Join(hooks, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := fixture.WriteProgram(filepath.Join(hooks, "hook.sh"), imageHook); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("hook.sh", filepath.Join(hooks, "link.sh")); err != nil {
		t.Fatal(err)
	}
	packages, err := fetchAll(operatorLock, o.cache)
	if err != nil {
		t.Fatal(err)
	}
	o.debs = packages[:1]
	o.layers, o.added = []string{hooks + "=/hooks"}, []string{"kubectl=" + o.node}
	digest, err := o.make()
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(o.out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.make(); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(o.out); err != nil || !bytes.Equal(first, second) {
		t.Errorf("two images differ: %v", err)
	}
	t.Logf("the image has %d KiB", len(first)>>10)
	image, root := read(t, o.out, digest), t.TempDir()
	files := mutate.Extract(image)
	defer files.Close()
	tar := exec.CommandContext(t.Context(), "tar", "x", "-C", root)
	tar.Stdin = files
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "tmp", "context"), []byte(`[{"binding":"onStartup"}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	devNull := filepath.Join(root, "dev", "null") // a file will do
	if err := errors.Join(os.WriteFile(devNull, nil, 0o666), os.Chmod(devNull, 0o666)); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "chroot", append([]string{"--userspec=" + config.Config.User, root}, args...)...)
		cmd.Env = slices.Concat(config.Config.Env, []string{"BINDING_CONTEXT_PATH=/tmp/context"})
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if got := run("/hooks/hook.sh", "--config"); got != "{configVersion: v1, onStartup: 1}\n" {
		t.Error(got)
	}
	if got := run("/hooks/link.sh"); got != "afterStartup 1 65532\n" {
		t.Error(got)
	}
	if layers, err := image.Layers(); err != nil || len(layers) != 4 {
		t.Errorf("%d layers, %v", len(layers), err)
	}
	for _, name := range []string{"shell-operator", "addon-operator", programs + "shell-operator", programs + "addon-operator", programs + "sealift-controller", programs + "kubectl"} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if got := strings.Join(config.Config.Entrypoint, " "); got != "/usr/local/bin/shell-operator" {
		t.Error(got)
	}
}

func TestInvalidOperatorImageOptionsAreNamed(t *testing.T) {
	for want, lock := range map[string]string{
		"say SHA256 URL":                    "bash http://archive.example/bash.deb\n",
		"package http://127.0.0.1:1/x.deb:": strings.Repeat("0", 64) + " http://127.0.0.1:1/x.deb\n",
	} {
		if _, err := fetchAll(lock, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	o := operatorOptions{options: settings(t)}
	o.binary, o.added = o.options.binary, []string{"bin/kubectl"}
	if _, err := o.own(); err == nil || !strings.Contains(err.Error(), "say NAME=FILE") {
		t.Error(err)
	}
	if _, err := folder(filepath.Join(t.TempDir(), "absent"), "/hooks"); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Error(err)
	}
}
