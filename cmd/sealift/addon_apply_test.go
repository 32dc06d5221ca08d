package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/imagepackage"
	"github.com/sealift/sealift/kube"
)

// writeRelocatable writes a package of the add-on app 1.0 that needs nothing of nodes. It has that many ConfigMaps.
func writeRelocatable(t *testing.T, file string, objects int) {
	t.Helper()
	var all strings.Builder
	for n := range objects {
		fmt.Fprintf(&all, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: app-%d, namespace: default}\ndata: {image: 'quay.io/app:1'}\n", n)
	}
	image, err := random.Image(1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	var files []bundle.File
	for name, text := range map[string]string{
		"Manifest": "image app quay.io/app:1\n", "addon.yaml": "description: x\nlicense: Apache-2.0\nrequires: [kubernetes]\n",
		"install.sh":              "app() { sealift_apply app \"$DIR/addons/app/1.0/yaml\"; }\n",
		"yaml/kustomization.yaml": "resources: [all.yaml]\n", "yaml/all.yaml": all.String(),
	} {
		files = append(files, bundle.BytesFile("addons/app/1.0/"+name, 0o644, []byte(text)))
	}
	imagepackage.WriteImage(t, file, "quay.io/app:1", imagepackage.Runnable(t, image), files...)
}

func planOfAddOnApply(t *testing.T) {
	h, kubeconfig := newPlanHost(t), settled(t)
	h.fleeting = []string{"tmp", "tmp/sealift-scratch-0-gate"} // hooks render there
	writeRelocatable(t, filepath.Join(h.dir, "work/app.tar.gz"), 2)
	look := func() map[string]string { return everything(t, kubeconfig) }
	apply := []string{"addon", "apply", "app.tar.gz", "app", "--kubeconfig", kubeconfig}
	for want, more := range map[string]string{"app     1.0      -       2 created": "--plan --yes", `"action": "created"`: "--plan --yes -o json"} {
		if out := h.planned("", append(apply, strings.Fields(more)...), look); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", more, want, out)
		}
	}
	if code, out := h.sealift("", apply...); code != app.ExitUsage || !strings.Contains(out, "--yes") {
		t.Errorf("without --yes: exit code %d\n%s", code, out)
	}
	if code, out := h.sealift("", append(apply, "--yes")...); code != app.ExitDone || !strings.Contains(out, "ConfigMap/default/app-1 created") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out := h.planned("", append(apply, "--plan"), look); !strings.Contains(out, "app     1.0      1.0     2 unchanged") {
		t.Error(out)
	}
	if code, out := h.sealift("", "addon", "list", "--kubeconfig", kubeconfig); code != app.ExitDone || !strings.Contains(out, "app     1.0      addon-apply  sealift/app") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func planOfAddOnRemove(t *testing.T) {
	h, kubeconfig := newPlanHost(t), settled(t)
	h.fleeting = []string{"tmp", "tmp/sealift-scratch-0-gate"}
	writeRelocatable(t, filepath.Join(h.dir, "work/app.tar.gz"), 2)
	if code, out := h.sealift("", "addon", "apply", "app.tar.gz", "app", "--kubeconfig", kubeconfig, "--yes"); code != app.ExitDone {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	remove := []string{"addon", "remove", "app", "--kubeconfig", kubeconfig}
	for want, more := range map[string]string{"app: ConfigMap/default/app-1 pruned": "--plan --yes", `"action": "pruned"`: "--plan -o json"} {
		if out := h.planned("", append(remove, strings.Fields(more)...), func() map[string]string { return everything(t, kubeconfig) }); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", more, want, out)
		}
	}
	if code, out := h.sealift("", append(remove, "--yes")...); code != app.ExitDone || !strings.Contains(out, "2 pruned") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, out := h.sealift("", "addon", "list", "--kubeconfig", kubeconfig, "-o", "json"); code != app.ExitDone || strings.TrimSpace(out) != "[]" {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestKilledAddOnApplyIsRepeated kills the program with SIGKILL while it applies an add-on, and while it removes it. The same command then
// ends as if nothing had happened.
func TestKilledAddOnApplyIsRepeated(t *testing.T) {
	p := patching{t, t.TempDir()}
	kubeconfig := kubeconfigFor(t)
	const objects = 120
	writeRelocatable(t, p.at("app.tar.gz"), objects)
	apply := []string{"addon", "apply", "app.tar.gz", "app", "--kubeconfig", kubeconfig, "--yes"}
	remove := []string{"addon", "remove", "app", "--kubeconfig", kubeconfig, "--yes"}
	takes, takesRemoval := p.run("once", apply...), p.run("once", remove...)
	seed := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	running := 0
	killed := func(takes time.Duration, args []string) {
		if p.killed(takes, seed.Float64(), "killed", args...) {
			running++
		}
	}
	planned := func(want kube.Action, args []string) {
		t.Helper()
		out, err := p.command("killed", append(args, "--plan", "-o", "json")...).Output()
		var document struct {
			AddOns []struct{ Objects []kube.Entry }
		}
		if jsonErr := json.Unmarshal(out, &document); err != nil || jsonErr != nil || len(document.AddOns) != 1 {
			t.Fatalf("%v, %v: %s", err, jsonErr, out)
		}
		if got := (kube.Result{Entries: document.AddOns[0].Objects}).Count(want); got != objects {
			t.Errorf("after %d kills %d objects are %s", running, got, want)
		}
	}
	for range kills {
		killed(takes, apply)
	}
	p.run("killed", apply...)
	planned(kube.Unchanged, apply)
	planned(kube.Pruned, remove)
	for range kills {
		killed(takesRemoval, remove)
	}
	if out, err := p.command("killed", remove...).CombinedOutput(); err != nil && !strings.Contains(string(out), "nobody applied an add-on app") {
		t.Errorf("after %d kills: %v: %s", running, err, out)
	}
	planned(kube.Created, apply)
	if out, err := p.command("killed", "addon", "list", "--kubeconfig", kubeconfig).CombinedOutput(); err != nil || string(out) != "no add-ons\n" {
		t.Errorf("%v: %s", err, out)
	}
}
