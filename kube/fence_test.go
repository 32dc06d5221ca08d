package kube_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The engine runs inside the installer, which has 128 MiB. Each of these trees costs tens of MiB before the first line of
// main, because it registers every typed API there is.
func TestEngineLinksNoTypedAPIs(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	heavy := map[string]bool{
		"k8s.io/client-go/kubernetes/scheme":                   true,
		"k8s.io/client-go/discovery":                           true,
		"sigs.k8s.io/controller-runtime/pkg/client":            true,
		"github.com/fluxcd/pkg/ssa":                            true,
		"github.com/google/go-containerregistry/pkg/v1/remote": true,
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if heavy[dep] {
			t.Errorf("kube links %s", dep)
		}
	}
}
