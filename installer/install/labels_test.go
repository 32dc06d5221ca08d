package install

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/spec"
)

func TestInstallerLabelsNodes(t *testing.T) {
	client, err := cluster.Client(kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"disk": "hdd", "kept": "yes"}}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), worker, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i := asking(t, spec.APIVersion, "  kubernetes: {version: 1.36.3}\n  kurl: {nodeLabels: [disk=ssd, example.com/role=db, empty]}\n")
	labels, err := i.nodeLabels()
	if err != nil {
		t.Fatal(err)
	}
	if err := labelNode(t.Context(), client, "node-1", labels); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"disk": "ssd", "example.com/role": "db", "empty": "", "kept": "yes"} {
		if value, there := got.Labels[name]; !there || value != want {
			t.Errorf("%s=%q, want %q", name, value, want)
		}
	}
	if err := labelNode(t.Context(), client, "node-2", labels); err == nil || !strings.Contains(err.Error(), "label node node-2") {
		t.Errorf("a node that is not there: %v", err)
	}
	plan := i.makePlan()
	if at := slices.Index(ids(plan), labelsStep); at < 0 || at < slices.Index(ids(plan), node.InitStep) {
		t.Errorf("the node is labelled at %d in %v", at, ids(plan))
	}
}

func TestLabelsAreCheckedBeforeFirstChange(t *testing.T) {
	for name, row := range map[string]struct {
		labels       string
		join, master bool
		want         string
	}{
		"of the first node":            {"node-role.kubernetes.io/db=", false, false, ""},
		"of a worker":                  {"disk=ssd, topology.kubernetes.io/zone=a, node.kubernetes.io/x=y", true, false, ""},
		"of Kubernetes, for a worker":  {"node-role.kubernetes.io/db=", true, false, "run 'kubectl label node node-1 node-role.kubernetes.io/db='"},
		"the same for a control plane": {"node-role.kubernetes.io/db=", true, true, ""},
		"no name":                      {"'=x'", false, false, "not a label such as disk=ssd"},
		"blanks":                       {"'disk=s s d'", false, false, "not a label such as disk=ssd"},
	} {
		t.Run(name, func(t *testing.T) {
			i := asking(t, spec.APIVersion, "  kubernetes: {version: 1.36.3}\n  kurl: {nodeLabels: ["+row.labels+"]}\n")
			if row.join {
				i.options.Join = &Join{ControlPlane: row.master}
			}
			if err := i.checkLabels(); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// The labels of the first node are its own.
func TestJoiningHostsGetNoLabels(t *testing.T) {
	s, err := SharedInstaller(share.Cluster{Installer: "apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3}\n  kurl: {nodeLabels: [disk=ssd], nameserver: 10.0.0.1}\n"})
	if err != nil {
		t.Fatal(err)
	}
	if options := s.Section("kurl").Options; options["nodeLabels"] != nil || options["nameserver"] != "10.0.0.1" {
		t.Errorf("got %v", options)
	}
}
