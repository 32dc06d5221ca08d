package kurlbin

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestHealthIgnoresWhatKurlIgnores(t *testing.T) {
	for checks, want := range map[string]string{
		"POOL_NO_REDUNDANCY": "", "TOO_MANY_PGS RECENT_CRASH MON_DISK_LOW POOL_PG_NUM_NOT_POWER_OF_TWO AUTH_INSECURE_GLOBAL_ID_RECLAIM_ALLOWED": "",
		"POOL_NO_REDUNDANCY OSD_DOWN": "HEALTH_WARN OSD_DOWN", "AUTH_INSECURE_GLOBAL_ID_RECLAIM": "HEALTH_WARN AUTH_INSECURE_GLOBAL_ID_RECLAIM",
		"": "HEALTH_WARN",
	} {
		details := map[string]any{}
		for check := range strings.FieldsSeq(checks) {
			details[check] = map[string]any{"severity": "HEALTH_WARN"}
		}
		cluster := unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"ceph": map[string]any{"health": "HEALTH_WARN", "details": details}}}}
		if err := healthOf(cluster, nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", checks, err, want)
		}
	}
}

func TestRookDeploymentVersionIsRead(t *testing.T) {
	for name, row := range map[string]struct {
		label, version string
		updated, ready int32
		want           string
	}{
		"at the version":                 {"v1.19.7", "1.19.7", 1, 1, ""},
		"at the build of a version":      {"19.2.4-0", "19.2.4-0", 1, 1, ""},
		"at a build, asked for none":     {"19.2.4-0", "19.2.4", 1, 1, ""},
		"at a version that begins alike": {"v1.10.11", "1.10.1", 1, 1, "has rook-version v1.10.11"},
		"at another version":             {"v1.18.0", "1.19.7", 1, 1, "has rook-version v1.18.0"},
		"not ready":                      {"v1.19.7", "1.19.7", 1, 0, "0 of 1 replicas up to date and ready"},
		"not up to date":                 {"v1.19.7", "1.19.7", 0, 1, "0 of 1 replicas up to date and ready"},
		"without a version":              {"", "1.4.9", 0, 0, ""},
		"with the version of an old bug": {"0.0.0-0", "15.2.8-0", 0, 0, ""},
	} {
		replicas := int32(1)
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "mgr", Labels: map[string]string{"rook-version": row.label}},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas}, Status: appsv1.DeploymentStatus{UpdatedReplicas: row.updated, ReadyReplicas: row.ready}}
		if err := deploymentAt(d, "rook-version", row.version); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}
