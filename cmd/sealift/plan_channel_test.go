package main

import (
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/cli/app"
)

// channelHost is a host with a channel that has the add-on a, which the installer of its cluster has applied.
func channelHost(t *testing.T) (h *planHost, kubeconfig string, look func() map[string]string) {
	t.Helper()
	h, kubeconfig = newPlanHost(t), settled(t)
	h.write("work/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}\n")
	h.write("work/addons.yaml", "kind: Addons\nmetadata: {name: x}\nspec:\n  addons:\n  - {name: a, version: 1.0.0, manifest: a.yaml}\n")
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	h.made(err)
	client, err := dynamic.NewForConfig(cfg)
	h.made(err)
	records := addon.RecordsOf(client)
	_, err = records.Claim(t.Context(), "a", addon.Ownership{Owner: addon.Installer(), Policy: addon.OnChange, Set: "sealift/a"})
	h.made(err)
	_, err = records.SetApplied(t.Context(), "a", addon.Installer(), addon.Applied{Version: "0.9.0", Digest: "sha256:one", Options: "o1"})
	h.made(err)
	return h, kubeconfig, func() map[string]string { return everything(t, kubeconfig) }
}

// planOfChannelApply also has kOps's way: without --yes, the command only shows.
func planOfChannelApply(t *testing.T) {
	h, kubeconfig, look := channelHost(t)
	apply := []string{"channel", "apply", "-f", "addons.yaml", "--kubeconfig", kubeconfig}
	for want, more := range map[string][]string{"Must specify --yes to update": nil, "1.0.0": {"--plan", "--yes"}, `"action": "adopt"`: {"--plan", "--yes", "-o", "json"}} {
		if out := h.planned("", append(apply, more...), look); !strings.Contains(out, want) || (more != nil) == strings.Contains(out, "--yes") {
			t.Errorf("%v: no %q in\n%s", more, want, out)
		}
	}
	if code, out := h.sealift("", append(apply, "--yes", "-o", "json")...); code != app.ExitDone || !strings.Contains(out, `"updated": [`) || !strings.Contains(out, `Updated "a" to 1.0.0`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out := h.planned("", append(apply, "--plan"), look); !strings.Contains(out, "No update required") {
		t.Error(out)
	}
}

func planOfChannelRelease(t *testing.T) {
	h, kubeconfig, look := channelHost(t)
	if code, out := h.sealift("", "channel", "apply", "-f", "addons.yaml", "--yes", "--kubeconfig", kubeconfig); code != app.ExitDone {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	release := []string{"channel", "release", "a", "--kubeconfig", kubeconfig}
	for want, more := range map[string][]string{"Must specify --yes to release": nil, "goes back to installer": {"--plan", "--yes"}, `"to": "installer"`: {"--plan", "--yes", "-o", "json"}} {
		if out := h.planned("", append(release, more...), look); !strings.Contains(out, want) || (more != nil) == strings.Contains(out, "--yes") {
			t.Errorf("%v: no %q in\n%s", more, want, out)
		}
	}
	if code, out := h.sealift("", append(release, "--yes")...); code != app.ExitDone || !strings.Contains(out, `Released "a"`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
