package install

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

func TestStorageInUseIsNotDropped(t *testing.T) {
	client, err := cluster.Client(kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, provisioner := range map[string]string{"a": "openebs.io/local", "b": "somebody.example.com/disk", "c": "rook-ceph.rbd.csi.ceph.com"} {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}}}
		v.Spec = corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}
		if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "minio"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		meta   catalog.Meta
		status preflight.Status
		want   string
	}{
		"with volumes":                     {catalog.Meta{Name: "openebs"}, preflight.Fail, "drops openebs, which is in use: volume volume-a"},
		"with volumes by CSI":              {catalog.Meta{Name: "rook"}, preflight.Fail, "volume volume-c"},
		"without volumes":                  {catalog.Meta{Name: "longhorn"}, preflight.Pass, "nothing uses it"},
		"with an object store":             {catalog.Meta{Name: "minio"}, preflight.Fail, "the object store in namespace minio"},
		"somebody's, which may have it":    {catalog.Meta{Name: "disk", Declared: true, Provides: []string{catalog.Storage}}, preflight.Fail, "volume volume-b"},
		"somebody's store, which is gone":  {catalog.Meta{Name: "garage", Declared: true, Provides: []string{catalog.ObjectStore}}, preflight.Pass, "nothing uses it"},
		"the catalogue's, without volumes": {catalog.Meta{Name: "local-path-provisioner", Declared: true, Provides: []string{catalog.Storage}}, preflight.Pass, "nothing uses it"},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "storage", Probe: func(ctx context.Context, r *preflight.Reporter) {
				if err := refuseDropped(ctx, client, []catalog.Meta{row.meta}, nil, r); err != nil {
					t.Error(err)
				}
			}}})
			if err != nil || len(report.Results) != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
			if got := report.Results[0]; got.Status != row.status || !strings.Contains(got.Message, row.want) || got.Final != (row.status == preflight.Fail) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestObjectStoreOfAddOnsIsNotDropped has a cluster whose registry keeps its images in a bucket.
func TestObjectStoreOfAddOnsIsNotDropped(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "registry", Name: "registry-bucket"}})
	store := []catalog.Meta{{Name: "object-store", Declared: true, Provides: []string{s3}}}
	velero, ofKurl := with(t, "velero", ""), with(t, "registry", "")
	ofKurl.fromKURL = true
	for name, row := range map[string]struct {
		addOns  []addOn
		options string
		want    string
	}{
		"the registry stays":          {[]addOn{with(t, "registry", ""), velero}, "", "drops object-store, which is in use: the bucket of registry"},
		"the registry goes, too":      {[]addOn{velero}, "", "nothing uses it"},
		"kURL's registry":             {[]addOn{ofKurl}, "", "nothing uses it"},
		"velero has a bucket outside": {[]addOn{velero}, "  velero: {version: '1', bucketFrom: registry/registry-bucket}\n", "nothing uses it"},
	} {
		i := asking(t, spec.APIVersion, "  kubernetes: {version: 1.36.3}\n"+row.options)
		i.addOns = row.addOns
		report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "storage", Probe: func(ctx context.Context, r *preflight.Reporter) {
			if err := refuseDropped(ctx, client, store, i.bucketSecrets(), r); err != nil {
				t.Error(err)
			}
		}}})
		if err != nil || len(report.Results) != 1 || !strings.Contains(report.Results[0].Message, row.want) {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
}

// A cluster that does not answer does not prove that nothing is used.
func TestStorageOfUnreachableClusterIsNotDropped(t *testing.T) {
	report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "storage", Probe: func(ctx context.Context, r *preflight.Reporter) {
		storageKept(ctx, []catalog.Meta{{Name: "openebs"}}, nil, r) // this host has no administrator's kubeconfig
	}}})
	if err != nil || len(report.Results) != 1 || report.Results[0].Status != preflight.Fail || !report.Results[0].Final {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestDroppedStorageIsFoundInEarlierInstall(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""), with(t, "flannel", ""))
	i.options.Root = t.TempDir()
	for dir, text := range map[string]string{"openebs/4.5.1": "", "openebs/4.4.0": "", "contour/1.32.1": "", "disk/1.0": "provides: [storage]\n", "minio/1": ""} {
		dir = filepath.Join(i.options.Root, "addons", dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "Manifest"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, catalog.MetaFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := func() (names string) {
		dropped, err := i.droppedStorage()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range dropped {
			names += m.Name + " "
		}
		return names
	}
	if got := names(); got != "" {
		t.Errorf("before there is a cluster: %s", got)
	}
	plan := lifecycle.Plan{}
	for _, id := range []string{"openebs/files", "contour/files", "disk/files", node.InitStep} { // minio's files are another's
		plan = append(plan, lifecycle.Step{ID: id, Run: func(context.Context) (lifecycle.State, error) { return nil, nil }})
	}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, plan, i.Journal, func(lifecycle.Event) {}); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "disk openebs " {
		t.Errorf("got %q", got)
	}
	for _, alone := range []bool{false, true} { // with and without the checks that people may leave out
		checks, err := i.checks(preflight.Host{}, preflight.Needs{}, PreflightOptions{ExcludeBuiltin: alone})
		if err != nil || !slices.ContainsFunc(checks, func(c preflight.Check) bool { return c.Name == "storage" }) {
			t.Errorf("exclude built-in %t: no check looks at the storage: %v", alone, err)
		}
	}
	i.addOns = append(i.addOns, with(t, "openebs", ""))
	if got := names(); got != "disk " {
		t.Errorf("with openebs still there: %q", got)
	}
}
