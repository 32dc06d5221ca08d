package agent

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// TestNodeWithoutUndoSetIsUndoneOrRefused: an undo killed before it reported its end has already removed the copies.
func TestNodeWithoutUndoSetIsUndoneOrRefused(t *testing.T) {
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{Root: t.TempDir(), Node: "host-1", Client: client}
	for name, row := range map[string]struct {
		version string
		ready   corev1.ConditionStatus
		refused bool
	}{
		"it has gone back":          {"v1.35.4", corev1.ConditionTrue, false},
		"it joined since":           {"v1.36.3", corev1.ConditionTrue, true},
		"its kubelet does not work": {"v1.35.4", corev1.ConditionUnknown, true},
	} {
		made.Status.NodeInfo.KubeletVersion = row.version
		made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: row.ready}}
		if made, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		in := intent.Intent{Upgrade: "0123456789abcdef", Operation: intent.Undo, From: "1.35.4", UpgradeID: "0123456789abcdef"}
		_, err := a.undo(t.Context(), in, func(string) { t.Error(name + ": something begins") })
		if (err != nil) != row.refused || err != nil && !strings.Contains(err.Error(), "take it out with 'sealift node remove host-1'") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
