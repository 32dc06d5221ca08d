package upgrade

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/preflight"
)

// seLinuxMount is the minor version that mounts volumes with the SELinux label of the pod, instead of relabelling their files.
// https://github.com/kubernetes/enhancements/tree/master/keps/sig-storage/1710-selinux-relabeling
const seLinuxMount = 37

// labels warns if a node enforces SELinux, and the new version mounts volumes with labels that the old one did not: a pod then waits
// forever for a volume that another pod of its node has mounted with another label.
func (c *Cluster) labels(ctx context.Context, in *install.Install, r *preflight.Reporter) {
	if from, to := minor(in.From()), minor(in.Version()); from >= seLinuxMount || to < seLinuxMount {
		r.Passf("volumes keep their labels")
		return
	}
	enforcing, err := preflight.EnforcesSELinux(os.DirFS("/"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Warnf("see 'getenforce'", "cannot tell whether SELinux is enforced: %v", err)
		return
	}
	c.labelledVolumes(ctx, enforcing, r)
}

// labelledVolumes warns for a version that mounts volumes with labels. enforcing reports whether this host enforces SELinux.
func (c *Cluster) labelledVolumes(ctx context.Context, enforcing bool, r *preflight.Reporter) {
	var nodes []string
	for _, n := range c.nodes {
		if n.Name == c.own && enforcing || n.Name != c.own && c.described[n.Name].Enforcing {
			nodes = append(nodes, n.Name)
		}
	}
	if len(nodes) == 0 {
		r.Passf("no node enforces SELinux")
		return
	}
	affected, err := c.mountedWithLabels(ctx)
	switch {
	case err != nil:
		r.Warnf("run the command again", "cannot tell which volumes get another SELinux label: %v", err)
	case len(affected) == 0:
		r.Passf("enforced on %s; no volume is mounted with a label", strings.Join(nodes, ", "))
	default:
		r.Warnf("find such pods, and set securityContext.seLinuxChangePolicy: Recursive in them", "SELinux is enforced on %s. From Kubernetes 1.%d on, volumes of %s are mounted with the label of the pod, and pods with different labels cannot use the same volume on one node",
			strings.Join(nodes, ", "), seLinuxMount, strings.Join(affected, ", "))
	}
}

// mountedWithLabels names the kinds of volumes that Kubernetes mounts with a label: those of CSI drivers that allow it, and iSCSI and Fibre
// Channel.
func (c *Cluster) mountedWithLabels(ctx context.Context) (kinds []string, err error) {
	drivers, err := c.admin.Client.StorageV1().CSIDrivers().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, d := range drivers.Items {
		if d.Spec.SELinuxMount != nil && *d.Spec.SELinuxMount {
			kinds = append(kinds, d.Name)
		}
	}
	volumes, err := c.admin.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, v := range volumes.Items {
		switch {
		case v.Spec.ISCSI != nil:
			kinds = append(kinds, "iSCSI")
		case v.Spec.FC != nil:
			kinds = append(kinds, "Fibre Channel")
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil
}
