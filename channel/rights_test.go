package channel

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
)

// TestReaderOfNamespacesSeesRecordsAndPlans uses a user who may read only namespaces, as with kOps's own tool.
func TestReaderOfNamespacesSeesRecordsAndPlans(t *testing.T) {
	t.Parallel()
	cfg := controlplane.ForTest(t)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "dns", Annotations: map[string]string{recordPrefix + "dns": `{"version":"1.0.0","channel":"c"}`}}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}}}
	_, err1 := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	_, err2 := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	_, err3 := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	few := rest.CopyConfig(cfg)
	few.Impersonate = rest.ImpersonationConfig{UserName: "reader", Groups: []string{"system:authenticated"}}
	var log bytes.Buffer
	cluster, err := Connect(few, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	told := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(log.String(), text) {
				t.Errorf("the log lacks %q:\n%s", text, log.String())
			}
		}
		log.Reset()
	}

	var installed []Installed
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // rights arrive by a watch
		log.Reset()
		if installed, err = cluster.Installed(t.Context()); err == nil {
			break
		}
	}
	if err != nil || len(installed) != 1 || installed[0].Name != "dns" || *installed[0].Version != "1.0.0" {
		t.Fatalf("installed are %v, %v", installed, err)
	}
	told("you may not read who owns an add-on", "configmaps is forbidden")

	entries := []Entry{
		{Name: "dns", Namespace: "dns", Version: new("1.1.0"), Manifest: "a.yaml"},
		{Name: "keys", Namespace: "dns", Version: new("1.0.0"), Manifest: "a.yaml", NeedsPKI: true},
	}
	plan, err := cluster.Preview(t.Context(), entries)
	if err != nil || len(plan.Addons) != 2 || plan.Addons[0].Action != Update || plan.Addons[1].Action != Install ||
		plan.Addons[1].Reason != "no channel has installed it; who else owns it is not known" || plan.Addons[1].PKI {
		t.Errorf("the plan is %+v, %v", plan.Addons, err)
	}
	told("the installer may own some", "whether add-on keys has its CA")
	manifest := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(manifest, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: dns}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range plan.Addons {
		plan.Addons[i].Entry.Location = "file://" + manifest
	}
	if moves, err := cluster.Moves(t.Context(), Source{}, plan); err != nil || len(moves) > 0 {
		t.Errorf("moves are %v, %v", moves, err)
	}
	told("which objects would move")
	// who applies has to know
	if _, err := cluster.Plan(t.Context(), entries); err == nil || !strings.Contains(err.Error(), "configmaps is forbidden") {
		t.Errorf("a plan to apply: %v", err)
	}
}
