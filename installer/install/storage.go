package install

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

// provisioners identify the owner of a StorageClass's volumes: a part of the provisioner's name.
func provisioners() map[string][]string {
	return map[string][]string{
		"aws": {"aws-ebs", "ebs.csi.aws.com"}, "local-path-provisioner": {"rancher.io/local-path"}, "longhorn": {"longhorn.io"},
		"openebs": {"openebs.io"}, "rook": {".ceph.com", "ceph.rook.io"},
	}
}

// storeNamespace is where an add-on keeps its object store.
func storeNamespace(addOn string) string {
	if addOn == "rook" {
		return "rook-ceph"
	}
	return addOn
}

// s3 is the capability of the catalogue's object store, in which add-ons have buckets.
const s3 = "s3"

// bucketSecrets are the Secrets NAMESPACE/NAME of the buckets that add-ons of the Installer have there.
func (c *contents) bucketSecrets() (names []string) {
	for _, a := range c.addOns {
		from, _ := c.spec.AddOn(a.name()).Options["bucketFrom"].(string)
		if (a.name() == "registry" || a.name() == "velero" && from == "") && !a.fromKURL {
			names = append(names, a.name()+"/"+a.name()+"-bucket")
		}
	}
	return names
}

// droppedStorage are the add-ons with volumes or an object store that an earlier install brought, and that the Installer no
// longer has.
func (j *job) droppedStorage() ([]catalog.Meta, error) {
	if j.Joins() || !j.past.Began(node.InitStep) {
		return nil, nil
	}
	known, err := catalog.Scan(os.DirFS(j.options.Root))
	if err != nil {
		return nil, fmt.Errorf("the add-ons of the earlier install: %w", err)
	}
	var dropped []catalog.Meta
	for _, m := range known {
		stays := slices.ContainsFunc(j.addOns, func(a addOn) bool { return a.name() == m.Name })
		again := slices.ContainsFunc(dropped, func(d catalog.Meta) bool { return d.Name == m.Name })
		holds := slices.ContainsFunc(m.Capabilities(), func(c string) bool { return c == catalog.Storage || c == catalog.ObjectStore || c == s3 })
		if holds && !stays && !again && j.past.Began(m.Name+"/files") {
			dropped = append(dropped, m)
		}
	}
	return dropped, nil
}

// storageKept refuses an Installer that drops add-ons whose storage is in use. Sealift moves no data from one to another. buckets are the
// Secrets of add-ons that stay.
func storageKept(ctx context.Context, dropped []catalog.Meta, buckets []string, r *preflight.Reporter) {
	client, err := cluster.Client(kubeadm.AdminKubeconfig)
	if err == nil {
		err = refuseDropped(ctx, client, dropped, buckets, r)
	}
	if err != nil {
		r.Refusef("start the cluster, or keep "+dropped[0].Name+" in the Installer", "cannot tell whether the storage of %s, which the Installer drops, is in use: %v", dropped[0].Name, err)
	}
}

// refuseDropped reports for each of the add-ons whether its storage is in use.
func refuseDropped(ctx context.Context, client clientset.Interface, dropped []catalog.Meta, buckets []string, r *preflight.Reporter) error {
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, m := range dropped {
		var used []string
		for _, v := range volumes.Items {
			provisioner := v.Annotations["pv.kubernetes.io/provisioned-by"]
			if v.Spec.CSI != nil {
				provisioner = v.Spec.CSI.Driver
			}
			if slices.Contains(m.Capabilities(), catalog.Storage) && mayProvision(m.Name, provisioner) {
				used = append(used, "volume "+v.Name)
			}
		}
		if slices.Contains(m.Capabilities(), catalog.ObjectStore) {
			namespace := storeNamespace(m.Name)
			_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			if err == nil {
				used = append(used, "the object store in namespace "+namespace)
			} else if !apierrors.IsNotFound(err) {
				return err
			}
		}
		if slices.Contains(m.Capabilities(), s3) {
			found, err := usedBuckets(ctx, client, buckets)
			if err != nil {
				return err
			}
			used = append(used, found...)
		}
		if len(used) > 0 {
			r.Refusef("keep "+m.Name+" in the Installer; or move its data yourself, and delete what holds it", "the Installer drops %s, which is in use: %s%s",
				m.Name, used[0], andMore(len(used)-1))
			continue
		}
		r.Passf("the Installer drops %s, and nothing uses it", m.Name)
	}
	return nil
}

// usedBuckets names those of the Secrets that the cluster has.
func usedBuckets(ctx context.Context, client clientset.Interface, secrets []string) (used []string, err error) {
	for _, one := range secrets {
		namespace, name, _ := strings.Cut(one, "/")
		_, err = client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			used = append(used, "the bucket of "+namespace)
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return used, nil
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// mayProvision reports whether volumes of a provisioner may be an add-on's. If an add-on's provisioner is unknown, all volumes that
// are not known to be another's may be its own.
func mayProvision(addOn, provisioner string) bool {
	var owner string
	for name, parts := range provisioners() {
		if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(provisioner, part) }) {
			owner = name
		}
	}
	_, listed := provisioners()[addOn]
	return owner == addOn || owner == "" && !listed && provisioner != ""
}
