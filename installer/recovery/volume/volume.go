// Package volume copies the local volumes of a node: folders on its disks that PersistentVolumes name.
//
// A copy is a stream in the format of GNU tar, which has owners, ACLs, extended attributes and holes. Pods are quiesced while their
// volumes are read, with the hooks that Velero runs. The package knows nothing of snapshots.
package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/sealift/sealift/installer/host/files"
)

// Volume is a local volume of a node.
type Volume struct {
	Name  string `json:"name"`            // of the PersistentVolume
	Claim string `json:"claim,omitempty"` // namespace/name
	Path  string `json:"path"`            // of the folder
}

// LeftOut is a volume that is not copied.
type LeftOut struct {
	Name  string `json:"name"`
	Claim string `json:"claim,omitempty"`
	Why   string `json:"why"`
}

// Group is the volumes that the same pods use. They are copied together while these pods are quiesced.
type Group struct {
	Volumes []Volume

	hooks []hooks
}

// excludeAnnotation names volumes of a pod that Velero leaves out.
// Source: https://velero.io/docs/v1.17/file-system-backup/#using-the-opt-out-approach
const excludeAnnotation = "backup.velero.io/backup-volumes-excludes"

// Find finds the local volumes of a node, below a folder with the host's files; empty means /.
func Find(ctx context.Context, client kubernetes.Interface, node, rootfs string) (groups []Group, leftOut []LeftOut, err error) {
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list the volumes: %w", err)
	}
	self, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("node %s: %w", node, err)
	}
	users, excluded := map[string][]corev1.Pod{}, sets.New[string]()
	err = eachUse(ctx, client, node, func(claim string, pod corev1.Pod, as string) {
		users[claim] = append(users[claim], pod)
		left := strings.Split(pod.Annotations[excludeAnnotation], ",")
		if slices.ContainsFunc(left, func(name string) bool { return strings.TrimSpace(name) == as }) {
			excluded.Insert(claim)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	var here []Volume
	for _, pv := range volumes.Items {
		v := Volume{Name: pv.Name, Path: folderOf(pv)}
		if pv.Spec.ClaimRef != nil {
			v.Claim = pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name
		}
		why, err := reason(pv, *self, v, rootfs)
		if err != nil {
			return nil, nil, err
		}
		if excluded.Has(v.Claim) {
			why = "the annotation " + excludeAnnotation + " of a pod names it"
		}
		if why != "" {
			leftOut = append(leftOut, LeftOut{v.Name, v.Claim, why})
			continue
		}
		here = append(here, v)
	}
	groups, err = group(here, users)
	return groups, leftOut, err
}

// eachUse calls see for each claim that a pod of a node uses, with the name of the volume in the pod.
func eachUse(ctx context.Context, client kubernetes.Interface, node string, see func(claim string, pod corev1.Pod, as string)) error {
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return fmt.Errorf("list the pods of %s: %w", node, err)
	}
	for _, pod := range pods.Items {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				see(pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName, pod, v.Name)
			}
		}
	}
	return nil
}

// CheckUnused refuses volumes that pods of a node use which have not ended.
func CheckUnused(ctx context.Context, client kubernetes.Interface, node string, volumes []Volume) error {
	var errs []error
	err := eachUse(ctx, client, node, func(claim string, pod corev1.Pod, _ string) {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		at := slices.IndexFunc(volumes, func(v Volume) bool { return v.Claim == claim })
		if at >= 0 && !ended {
			errs = append(errs, fmt.Errorf("pod %s/%s uses volume %s; scale its owner to zero pods, and try again", pod.Namespace, pod.Name, volumes[at].Name))
		}
	})
	return errors.Join(append(errs, err)...)
}

// folderOf returns the folder of a local volume, or "".
func folderOf(pv corev1.PersistentVolume) string {
	switch {
	case pv.Spec.Local != nil:
		return filepath.Clean(pv.Spec.Local.Path)
	case pv.Spec.HostPath != nil:
		return filepath.Clean(pv.Spec.HostPath.Path)
	}
	return ""
}

// reason says why a volume is not copied; "" if it is.
func reason(pv corev1.PersistentVolume, node corev1.Node, v Volume, rootfs string) (string, error) {
	if pv.Spec.NodeAffinity != nil && pv.Spec.NodeAffinity.Required != nil {
		selector, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
		if err != nil {
			return "", fmt.Errorf("volume %s: its node affinity: %w", v.Name, err)
		}
		if !selector.Match(&node) {
			return "it is on another node", nil
		}
	}
	switch {
	case v.Path == "":
		return "it is not a folder on a node", nil
	case pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return "it is a block device", nil
	}
	if err := CheckPath(v.Path); err != nil {
		return err.Error(), nil //nolint:nilerr // it is why the volume is left out
	}
	info, err := os.Stat(files.Host{Rootfs: rootfs}.Path(v.Path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "this host has no folder " + v.Path, nil
	case err != nil:
		return "", fmt.Errorf("volume %s: %w", v.Name, err)
	case !info.IsDir():
		return v.Path + " is not a folder", nil
	}
	return "", nil
}

// systemFolders belong to the host. A volume there would replace what root runs or trusts.
var systemFolders = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var/run", "/var/spool",
}

// stateFolders belong to the programs of a node.
var stateFolders = []string{"/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet", "/var/lib/sealift"}

// CheckPath refuses an invalid path of a volume.
func CheckPath(path string) error {
	if err := CheckFolder(path); err != nil {
		return err
	}
	if files.IsIn(path, stateFolders) {
		return fmt.Errorf("%s is a folder of the node, not of a volume", path)
	}
	return nil
}

// CheckFolder refuses a path at which data must not be written: it is not a folder, or in a system folder.
func CheckFolder(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" || strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%q is not the path of a folder", path)
	}
	if files.IsIn(path, systemFolders) || strings.HasPrefix(path, "/home/") && strings.Contains(path, "/.") { // such as /home/user/.ssh
		return fmt.Errorf("%s is in a folder of the system, which no volume may be", path)
	}
	return nil
}

// group groups volumes that have the same pods, and sorts them by name.
func group(volumes []Volume, users map[string][]corev1.Pod) ([]Group, error) {
	slices.SortStableFunc(volumes, func(a, b Volume) int { return cmp.Compare(a.Name, b.Name) })
	type members struct {
		volumes []Volume
		pods    map[string]corev1.Pod
	}
	var all []*members
	for _, v := range volumes {
		one := &members{[]Volume{v}, map[string]corev1.Pod{}}
		for _, pod := range users[v.Claim] {
			one.pods[pod.Namespace+"/"+pod.Name] = pod
		}
		rest := all[:0:0]
		for _, other := range all {
			if !shares(one.pods, other.pods) {
				rest = append(rest, other)
				continue
			}
			one.volumes = append(other.volumes, one.volumes...)
			maps.Copy(one.pods, other.pods)
		}
		rest = append(rest, one)
		all = rest
	}
	var groups []Group
	for _, one := range all {
		g := Group{Volumes: one.volumes}
		for _, name := range slices.Sorted(maps.Keys(one.pods)) {
			h, err := hooksOf(one.pods[name])
			if err != nil {
				return nil, err
			}
			if h.before != nil || h.after != nil {
				g.hooks = append(g.hooks, h)
			}
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func shares(a, b map[string]corev1.Pod) bool {
	for name := range a {
		if _, ok := b[name]; ok {
			return true
		}
	}
	return false
}
