package upgrade

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/preflight"
)

// TestVolumesMountedWithLabelsAreNamed uses a driver that allows such mounts and one that does not, and a node that enforces SELinux.
func TestVolumesMountedWithLabelsAreNamed(t *testing.T) {
	c, client := opened(t)
	check := func(enforcing bool) []preflight.Result {
		return results(t, preflight.Check{Name: "SELinux", Probe: func(ctx context.Context, r *preflight.Reporter) { c.labelledVolumes(ctx, enforcing, r) }})
	}
	wantResult(t, check(false), preflight.Pass, "no node enforces SELinux")
	wantResult(t, check(true), preflight.Pass, "enforced on host-1; no volume is mounted with a label")
	yes, no := true, false
	for name, allows := range map[string]*bool{"labels.example.com": &yes, "plain.example.com": &no, "silent.example.com": nil} {
		driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{SELinuxMount: allows}}
		if _, err := client.StorageV1().CSIDrivers().Create(t.Context(), driver, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.described = map[string]intent.Host{"host-2": {Enforcing: true}}
	wantResult(t, check(false), preflight.Warn, "SELinux is enforced on host-2. From Kubernetes 1.37 on, volumes of labels.example.com are mounted with the label of the pod")
	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.9:3260", IQN: "iqn.2026-11.com.example:disk"}}}}
	if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), disk, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantResult(t, check(true), preflight.Warn, "enforced on host-1, host-2. From Kubernetes 1.37 on, volumes of iSCSI, labels.example.com are")
}
