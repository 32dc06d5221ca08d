package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/lifecycle"
)

const labelsStep = "node/labels"

// labels adds the step that labels this node as the Installer says. Labels that it no longer names stay.
func (p *planner) labels(phase lifecycle.Phase) {
	labels, err := p.nodeLabels()
	if err != nil || len(labels) == 0 { // checkLabels reported the error
		return
	}
	p.add(lifecycle.Step{ID: labelsStep, Phase: phase, Title: "label this node", Timeout: shortTime, Inputs: lifecycle.Digest(labels)},
		inCluster(func(i *Install, ctx context.Context) (lifecycle.State, error) {
			kubeconfig := kubeadm.KubeletKubeconfig
			if i.ControlPlane() {
				kubeconfig = kubeadm.AdminKubeconfig
			}
			client, err := cluster.Client(kubeconfig)
			if err != nil {
				return nil, err
			}
			return nil, labelNode(ctx, client, i.facts.Hostname, labels)
		}))
}

// nodeLabels are the labels that the Installer names for this node.
func (c *contents) nodeLabels() (map[string]string, error) {
	words, _ := c.spec.Section("kurl").Options["nodeLabels"].([]any)
	labels := map[string]string{}
	for _, word := range words {
		text, _ := word.(string)
		name, value, _ := strings.Cut(text, "=")
		if wrong := slices.Concat(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)); len(wrong) > 0 {
			return nil, fmt.Errorf("%q in the Installer's kurl.nodeLabels is not a label such as disk=ssd: %s", text, wrong[0])
		}
		labels[name] = value
	}
	return labels, nil
}

// checkLabels refuses labels that the API server would refuse when the node is up.
func (j *job) checkLabels() error {
	labels, err := j.nodeLabels()
	if err != nil || !j.Joins() || j.options.Join.ControlPlane {
		return err
	}
	for name := range labels {
		if !workerMaySet(name) {
			return unmetf(fmt.Sprintf("run 'kubectl label node %s %s' on a control plane when it is up", j.facts.Hostname, name+"="+labels[name]), "a worker may not give itself the label %s", name)
		}
	}
	return nil
}

// workerMaySet reports whether the API server lets a kubelet set a label of its own node: those of Kubernetes are reserved, except
// a few (the admission plug-in NodeRestriction).
func workerMaySet(label string) bool {
	prefix, _, hasPrefix := strings.Cut(label, "/")
	within := func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) }
	switch {
	case !hasPrefix || !within("kubernetes.io") && !within("k8s.io"):
		return true
	case within("node.kubernetes.io"), within("kubelet.kubernetes.io"):
		return true
	}
	return slices.Contains([]string{"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"}, label)
}

func labelNode(ctx context.Context, client clientset.Interface, node string, labels map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "sealift"}); err != nil {
		return fmt.Errorf("label node %s: %w", node, err)
	}
	return nil
}
