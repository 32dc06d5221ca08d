//go:build grid

package upstreamfiles

import (
	"encoding/pem"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// shop is what is backed up. No node runs its pods.
const shop = `apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: sales}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: prices, namespace: shop}
data: {apple: "3"}
---
apiVersion: v1
kind: Secret
metadata: {name: till, namespace: shop}
stringData: {code: "1234"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: "example.org/shop:1"}]}
`

// behindTLS serves an S3 server by TLS, and returns its URL and a folder with the CA of its certificate.
func behindTLS(t *testing.T, endpoint string) (address, trusted string) {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // it keeps the host, which is signed
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
	}})
	t.Cleanup(server.Close)
	trusted = t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(trusted, "bucket.crt"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, trusted
}

// velero has the objects of the add-on, and its server, which works with the settings of its Deployment.
type velero struct {
	running
	program string
}

func startsVelero(t *testing.T, endpoint, trusted string, options hook.Variables) velero {
	t.Helper()
	release := releases.Newest("velero")
	v := velero{running: serves(t, row{module: "github.com/vmware-tanzu/velero@v" + release.Version, manifests: []string{"config/crd/v1/bases/*.yaml", "config/crd/v2alpha1/bases/*.yaml"}},
		controlplane.Options{Controllers: []string{"namespace-controller"}})}
	all := builtByHooks(t, veleroRun(bucketOutside{endpoint: endpoint}, options))
	var own []*unstructured.Unstructured
	var arguments []string
	for _, o := range all {
		if o.GetKind() == "CustomResourceDefinition" {
			continue // the stand-ins of the other tests
		}
		own = append(own, o)
		if o.GetKind() == "Deployment" {
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			arguments, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		}
	}
	v.applies("velero", own)
	v.program = v.running.program(upstream.FileOf{Component: "velero-v" + release.Version, Name: "velero"})
	plugins := t.TempDir()
	if err := os.Symlink(v.running.program(upstream.FileOf{Component: "velero-plugin-for-aws-v" + release.With["aws"], Name: "velero-plugin-for-aws"}), filepath.Join(plugins, "velero-plugin-for-aws")); err != nil {
		t.Fatal(err)
	}
	metrics, err := daemon.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	server := v.command(v.program, append(arguments, "--plugin-dir="+plugins, "--metrics-address="+metrics)...)
	server.Env = append(os.Environ(), "VELERO_NAMESPACE=velero", "VELERO_SCRATCH_DIR="+scratch, "HOME="+scratch, "TMPDIR="+scratch, "SSL_CERT_DIR=/etc/ssl/certs:"+trusted, "AWS_CA_BUNDLE=")
	v.starts(server)
	return v
}

// says runs Velero's command, as an administrator does in the pod of the server.
func (v velero) says(args ...string) string {
	v.Helper()
	cmd := exec.CommandContext(v.Context(), v.program, append(args, "--namespace=velero", "--kubeconfig="+v.kubeconfig)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		v.Fatalf("velero %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// kind is one of Velero's.
func (v velero) kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "velero.io", Version: "v1", Kind: name}
}

// TestVeleroBacksUpAndRestores has the add-on's objects, upstream's server and plugin, and an S3 server behind TLS. A namespace is backed up,
// deleted, and restored. The add-on's schedule makes a backup of its own.
func TestVeleroBacksUpAndRestores(t *testing.T) {
	s3 := objects.Start(t)
	endpoint, trusted := behindTLS(t, s3.Endpoint)
	v := startsVelero(t, endpoint, trusted, hook.Variables{"VELERO_SCHEDULE": "* * * * *"})
	v.shows(v.kind("BackupStorageLocation"), "velero", "default", "Available", "status", "phase")
	controlplane.Apply(t, v.cluster, shop)

	began := time.Now()
	if out := v.says("backup", "create", "shop", "--include-namespaces=shop", "--wait"); !strings.Contains(out, "completed with status: Completed") {
		t.Fatalf("the backup: %s", out)
	}
	t.Logf("the backup took %s", time.Since(began).Round(time.Second))
	file, err := os.Stat(filepath.Join(s3.Dir, "backups/shop/shop.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("it has %d bytes", file.Size())
	v.deletesNamespace("shop")

	began = time.Now()
	if out := v.says("restore", "create", "shop", "--from-backup=shop", "--wait"); !strings.Contains(out, "completed with status: Completed") {
		t.Fatalf("the restore: %s", out)
	}
	t.Logf("the restore took %s", time.Since(began).Round(time.Second))
	v.shows(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "", "shop", "sales", "metadata", "labels", "team")
	v.shows(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "shop", "prices", "3", "data", "apple")
	v.shows(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "shop", "till", "MTIzNA==", "data", "code")
	v.shows(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "shop", "shop", "2", "spec", "replicas")
	v.hasBackupOfSchedule()
}

// deletesNamespace waits until it is gone.
func (v velero) deletesNamespace(name string) {
	v.Helper()
	namespaces := v.cluster.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if err := namespaces.Delete(v.Context(), name, metav1.DeleteOptions{}); err != nil {
		v.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		if _, err := namespaces.Get(v.Context(), name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return
		}
	}
	v.Fatalf("the namespace %s is not gone", name)
}

// hasBackupOfSchedule waits for one of the add-on's schedule, which leaves out the namespace with the bucket.
func (v velero) hasBackupOfSchedule() {
	v.Helper()
	backups := v.cluster.Dynamic().Resource(schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: "backups"}).Namespace("velero")
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		list, err := backups.List(v.Context(), metav1.ListOptions{LabelSelector: "velero.io/schedule-name=cluster"})
		if err != nil {
			v.Fatal(err)
		}
		for _, b := range list.Items {
			excluded, _, _ := unstructured.NestedStringSlice(b.Object, "spec", "excludedNamespaces")
			if own := b.GetLabels()["applyset.kubernetes.io/part-of"]; own != "" {
				v.Fatalf("%s has the label of the add-on's objects: the next install would delete it", b.GetName())
			}
			if phase, _, _ := unstructured.NestedString(b.Object, "status", "phase"); phase == "Completed" && strings.Join(excluded, " ") == "object-store velero" {
				return
			}
		}
	}
	v.Fatal("the schedule made no complete backup")
}
