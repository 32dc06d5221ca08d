package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/internal/testing/controlplane"
)

// on is the node affinity of a volume of a node.
func on(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
	}}}}}
}

func TestLocalVolumesOfNodeAreFound(t *testing.T) {
	client := newClient(t, controlplane.ForTest(t))
	rootfs := t.TempDir()
	for _, folder := range []string{"mnt/disk", "opt/path", "opt/apart", "mnt/raw"} {
		if err := os.MkdirAll(filepath.Join(rootfs, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"here", "there"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	block := corev1.PersistentVolumeBlock
	local := func(path string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
	}
	hostPath := func(path string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	}
	for name, v := range map[string]corev1.PersistentVolumeSpec{
		"disk":      {PersistentVolumeSource: local("/mnt/disk"), NodeAffinity: on("here"), ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data"}},
		"path":      {PersistentVolumeSource: hostPath("/opt/path/")},
		"apart":     {PersistentVolumeSource: hostPath("/opt/apart"), ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "apart"}},
		"elsewhere": {PersistentVolumeSource: local("/mnt/disk"), NodeAffinity: on("there")},
		"raw":       {PersistentVolumeSource: local("/mnt/raw"), NodeAffinity: on("here"), VolumeMode: &block},
		"gone":      {PersistentVolumeSource: hostPath("/opt/gone")},
		"remote":    {PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/export"}}},
		"root":      {PersistentVolumeSource: hostPath("/")},
	} {
		v.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		v.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v}
		if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default", Annotations: map[string]string{
			excludeAnnotation: "other, scratch", "pre.hook.backup.velero.io/command": "freeze",
		}},
		Spec: corev1.PodSpec{NodeName: "here", Containers: []corev1.Container{{Name: "main", Image: "db"}}, Volumes: []corev1.Volume{
			{Name: "files", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "apart"}}},
		}},
	}
	pod, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "db", ContainerID: "containerd://0123"}}
	if _, err := client.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	data := []Volume{{Name: "disk", Claim: "default/data"}}
	if err := CheckUnused(t.Context(), client, "here", data); err == nil || !strings.Contains(err.Error(), "pod default/db uses volume disk") {
		t.Error(err)
	}
	if err := errors.Join(CheckUnused(t.Context(), client, "there", data), CheckUnused(t.Context(), client, "here", []Volume{{Name: "path"}})); err != nil {
		t.Error(err)
	}
	groups, leftOut, err := Find(t.Context(), client, "here", rootfs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range groups {
		for _, v := range g.Volumes {
			line := fmt.Sprintf("%s %s %s", v.Name, v.Claim, v.Path)
			for _, h := range g.hooks {
				line += " " + h.before.Pod + " " + h.before.ID
			}
			got = append(got, line)
		}
	}
	for _, l := range leftOut {
		got = append(got, l.Name+": "+l.Why)
	}
	slices.Sort(got)
	want := []string{
		"apart: the annotation backup.velero.io/backup-volumes-excludes of a pod names it",
		"disk default/data /mnt/disk default/db 0123",
		"elsewhere: it is on another node",
		"gone: this host has no folder /opt/gone",
		"path  /opt/path",
		"raw: it is a block device",
		"remote: it is not a folder on a node",
		`root: "/" is not the path of a folder`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestVolumesInSystemFoldersAreRefused(t *testing.T) {
	for _, path := range []string{"/srv/data", "/opt/local-path-provisioner/pvc-1_default_data", "/var/openebs/local/x", "/data", "/home/data", "/etcd", "/mnt/.volumes/a"} {
		if err := CheckPath(path); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{
		"/", "", "srv", "/srv/../etc", "/srv/", "/etc", "/etc/cron.d", "/root", "/root/.ssh", "/usr/local/bin", "/bin", "/lib/systemd", "/boot", "/run/x", "/var/run/x",
		"/var/spool/cron", "/var/lib/etcd", "/var/lib/kubelet/pods", "/var/lib/sealift", "/home/user/.ssh", "/proc/1", "/dev/shm", "/srv/\x1b[2J",
	} {
		if CheckPath(path) == nil {
			t.Errorf("a volume may be %q", path)
		}
	}
}
