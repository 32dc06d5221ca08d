package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/random"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

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

// TestAddOnOfBundleIsApplied uses a bundle whose Installer sets an option, as an archive and as the folder into which it was unpacked.
func TestAddOnOfBundleIsApplied(t *testing.T) {
	p := patching{t, t.TempDir()}
	kubeconfig := kubeconfigFor(t)
	p.write("node", "#!/bin/sh\n")
	p.write("installer.yaml", "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n  paint-shop: {version: \"1\", colour: green}\n")
	for name, text := range map[string]string{
		"Manifest": "", "addon.yaml": "description: x\noptions: {colour: {type: string, default: red}}\n",
		"install.sh": "paint-shop() {\n    local dir\n    dir=$(sealift_add_on_dir paint-shop)\n" +
			"    cp \"$DIR/addons/paint-shop/$PAINT_SHOP_VERSION\"/yaml/* \"$dir/\"\n" +
			"    render_yaml_file_2 \"$dir/a.tmpl.yaml\" >\"$dir/a.yaml\"\n    sealift_apply paint-shop \"$dir\"\n}\n",
		"yaml/kustomization.yaml": "resources: [a.yaml]\n",
		"yaml/a.tmpl.yaml":        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: paint, namespace: default}\ndata: {colour: '${PAINT_SHOP_COLOUR}'}\n",
	} {
		p.write("addons/paint-shop/1/"+name, text)
	}
	p.run("made", "build", "addons/paint-shop/1", "--out", "store")
	p.run("made", "bundle", "-f", "installer.yaml", "--store", "store", "--out", "cluster.tar.gz", "--sealift-preflight=")
	if err := os.Mkdir(p.at("unpacked"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", p.at("unpacked"), "-xzf", p.at("cluster.tar.gz")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, row := range []struct{ args, want string }{
		{"cluster.tar.gz paint-shop --yes", "ConfigMap/default/paint created"},
		{"unpacked paint-shop --plan", "paint-shop  1        1       1 unchanged"},
		{"unpacked paint-shop paint-shop.colour=$(date) --yes", "ConfigMap/default/paint configured"},
		{"cluster.tar.gz paint-shop --plan", "ConfigMap/default/paint configured"},
	} {
		out, err := p.command("applied", append([]string{"addon", "apply", "--kubeconfig", kubeconfig}, strings.Fields(row.args)...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), row.want) {
			t.Errorf("%s: no %q in %s%v", row.args, row.want, out, err)
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	object, err := dynamic.NewForConfigOrDie(cfg).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default").Get(t.Context(), "paint", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if data := fmt.Sprint(object.Object["data"]); data != "map[colour:$(date)]" {
		t.Errorf("the option became %s", data)
	}
	refused := p.command("applied", "addon", "apply", "cluster.tar.gz", "paint-shop", "--kubeconfig", kubeconfig, "--plan", "--registry", "127.0.0.1:1/x")
	if out, err := refused.CombinedOutput(); err != nil {
		t.Errorf("without images nobody asks the registry: %v: %s", err, out)
	}
	for want, args := range map[string]string{
		"name the add-ons to apply": "cluster.tar.gz paint-shop.colour=red",
		"--registry: ":              "cluster.tar.gz paint-shop --registry https://x",
	} {
		cmd := p.command("applied", append([]string{"addon", "apply", "--kubeconfig", kubeconfig}, strings.Fields(args)...)...)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != app.ExitUsage || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
}
