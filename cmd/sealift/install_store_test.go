package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestInstallRunsWithoutBundle installs an Installer out of stores of its packages.
func TestInstallRunsWithoutBundle(t *testing.T) {
	t.Setenv("SEALIFT_KEY_PASSPHRASE", "")
	h := newPlanHost(t)
	h.runningBundle()
	patch := h.keepsFirewall()
	run := func(code int, says string, args ...string) {
		t.Helper()
		got, out := h.sealift("", append(args, "--root", "node")...)
		if got != code || !strings.Contains(out, says) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s", args, got, code, says, out)
		}
	}
	from := func(store string, more ...string) []string {
		return append([]string{"install", "-f", "installer.yaml", "--store", store, "--ignore", "--patch", patch}, more...)
	}

	fixture.Unapproved(t, fips.PrivateKeys)
	for _, public := range []string{"key", "other"} {
		if code, out := h.sealift("", "key", "generate", "--out", public); code != app.ExitDone {
			t.Fatalf("exit code %d\n%s", code, out)
		}
	}
	if code, out := h.sealift("", "build", "addons/app/1", "addons/kubernetes/1.36.3", "--out", "signed", "--key", "key.key"); code != app.ExitDone {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	run(app.ExitFailed, "not signed", from("store", "--plan", "--key", "key.pub")...)
	run(app.ExitFailed, "not signed with a given key", from("signed", "--plan", "--key", "other.pub")...)
	run(app.ExitFailed, "no package app-2", from("store", "--plan", "app.version=2")...)

	web := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(h.dir, "work/store"))))
	defer web.Close()
	run(app.ExitDone, "app/install", from(web.URL, "--plan")...)

	name := filepath.Join(h.dir, "work/store/app-1.tar.gz")
	whole, err := os.ReadFile(name)
	h.made(err)
	damaged := slices.Clone(whole)
	damaged[len(damaged)/2]++
	h.write("work/store/app-1.tar.gz", string(damaged))
	run(app.ExitFailed, "addons/app/1/install.sh: headers, padding or sums of its member are damaged", from("store", "--yes")...)
	h.write("work/store/app-1.tar.gz", string(whole))
	for _, made := range []string{"hook", "../node"} {
		if _, err := os.Stat(filepath.Join(h.dir, "work", made)); err == nil {
			t.Errorf("%s was made by a command that failed", made)
		}
	}

	run(app.ExitDone, "each of its packages is signed with a key of --key", from("signed", "--yes", "--key", "key.pub")...)
	if _, err := os.Stat(filepath.Join(h.dir, "work/hook")); err != nil {
		t.Error(err)
	}
	run(app.ExitDone, "signatures of its packages were not checked", from("file://"+filepath.Join(h.dir, "work/signed"), "--yes")...)
	run(app.ExitDone, "nothing to do", from(web.URL, "--yes")...)
	run(app.ExitDone, "app", "preflight", "-f", "installer.yaml", "--store", "signed", "--ignore")
}

func TestInstallFromStoreRefusesWrongUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"install", "-f", "installer.yaml"},
		{"install", "--store", "dist"},
		{"install", "-f", "installer.yaml", "--store", "dist", "--bundle", "cluster.tar.gz"},
		{"install", "-f", "installer.yaml", "--store", "dist", "--from", "https://host/abc1234"},
		{"install", "-f", "installer.yaml", "--store", "dist", "--base", "cluster.tar.gz"},
		{"install", "-f", "installer.yaml", "--bundle", "cluster.tar.gz"},
		{"preflight", "--store", "dist"},
		{"preflight", "-f", "installer.yaml", "--bundle", "cluster.tar.gz"},
		{"preflight", "-f", "installer.yaml", "--store", "dist", "--from", "https://host/abc1234"},
	} {
		if code, _, errOut := command(t, args...); code != app.ExitUsage {
			t.Errorf("%q: exit code %d, %s", args, code, errOut)
		}
	}
}
