//go:build grid

package upstreamfiles

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/docexamples"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// running is an API server without nodes, on which programs of an add-on work.
type running struct {
	*testing.T
	cluster    *kube.Cluster
	kubeconfig string
}

// serves starts an API server with the definitions of a module, if there is one.
func serves(t *testing.T, definitions row, o controlplane.Options) running {
	t.Helper()
	plane := controlplane.StartForTest(t, o)
	cluster, err := kube.Connect(plane.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := running{t, cluster, filepath.Join(t.TempDir(), "kubeconfig")}
	if definitions.module != "" {
		objects, err := definitions.objects(t, definitions.source(t))
		if err != nil {
			t.Fatal(err)
		}
		r.applies("definitions", objects)
	}
	if err := controlplane.WriteKubeconfig(r.kubeconfig, plane.Config()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r running) applies(set string, objects []*unstructured.Unstructured) {
	r.Helper()
	if _, err := kube.New(r.cluster, kube.Options{}).Apply(r.Context(), kube.Set{Name: set}, objects, kube.ApplyOptions{}); err != nil {
		r.Fatal(err)
	}
}

// program returns the path of a program of the lab.
func (r running) program(of upstream.FileOf) string {
	r.Helper()
	path, err := lab.Workshop(r.T).File(r.Context(), of)
	if err != nil {
		r.Fatal(err)
	}
	return path
}

// command is a program with the kubeconfig. It ends with the test at the latest.
func (r running) command(path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.Context(), path, append(args, "--kubeconfig="+r.kubeconfig)...)
	cmd.Stdout, cmd.Stderr = r.Output(), r.Output()
	return cmd
}

// starts runs a command until the test ends.
func (r running) starts(cmd *exec.Cmd) {
	r.Helper()
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = cmd.Wait() }) // the end of the test's context ends it
}

// runs applies the definitions of a module, and starts a program with a kubeconfig until the test ends.
func runs(t *testing.T, program upstream.FileOf, definitions row, args ...string) running {
	t.Helper()
	r := serves(t, definitions, controlplane.Options{})
	r.starts(r.command(r.program(program), args...))
	return r
}

// shows waits until an object has a value that begins with a text, and returns the object.
func (r running) shows(kind schema.GroupVersionKind, namespace, name, want string, fields ...string) *unstructured.Unstructured {
	r.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	of, err := r.cluster.Objects(r.Context(), kube.RefOf(object))
	if err != nil {
		r.Fatal(err)
	}
	var value string
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		found, err := of.Get(r.Context(), name, metav1.GetOptions{})
		if err != nil {
			value = err.Error()
			continue
		}
		if value, _, err = unstructured.NestedString(found.Object, fields...); err == nil && strings.Contains(value, want) && value != "" {
			return found
		}
		if number, _, err := unstructured.NestedInt64(found.Object, fields...); err == nil && want == "2" && number == 2 {
			return found
		}
	}
	r.Fatalf("%s of %s/%s is %q, want %q", strings.Join(fields, "."), kind.Kind, name, value, want)
	return nil
}

// TestCertManagerIssuesAndRenews has the objects of the add-on's page, and the lab's controller.
func TestCertManagerIssuesAndRenews(t *testing.T) {
	version := "v" + releases.Newest("cert-manager").Version
	r := runs(t, upstream.FileOf{Component: "cert-manager-" + version, Name: "controller"},
		row{module: "github.com/cert-manager/cert-manager@" + version, manifests: []string{"deploy/crds/*.yaml"}}, "--cluster-resource-namespace=cert-manager")
	controlplane.Apply(t, r.cluster, "apiVersion: v1\nkind: Namespace\nmetadata: {name: cert-manager}\n")
	for _, name := range []string{"ca.yaml", "web.yaml"} {
		controlplane.Apply(t, r.cluster, docexamples.File(t, "../../../docs/addons/cert-manager.md", name))
	}
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	first := r.certificate(r.shows(secret, "default", "web", "", "data", "tls.crt"))
	r.shows(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}, "default", "web", "2", "status", "revision")
	second := r.certificate(r.shows(secret, "default", "web", "", "data", "tls.crt"))
	if second.SerialNumber.Cmp(first.SerialNumber) == 0 || !second.NotAfter.After(first.NotAfter) {
		t.Errorf("the certificate was not renewed: it ends at %s, before at %s", second.NotAfter, first.NotAfter)
	}
	t.Logf("issued until %s, renewed until %s", first.NotAfter, second.NotAfter)
}

// certificate is that of a Secret, which its CA has signed for the name of the page.
func (r running) certificate(secret *unstructured.Unstructured) *x509.Certificate {
	r.Helper()
	part := func(key string) []byte {
		text, _, err := unstructured.NestedString(secret.Object, "data", key)
		if err != nil {
			r.Fatal(err)
		}
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			r.Fatal(err)
		}
		return decoded
	}
	block, _ := pem.Decode(part("tls.crt"))
	if block == nil {
		r.Fatal("the Secret has no certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		r.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(part("ca.crt"))
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: "web.example.org"}); err != nil {
		r.Error(err)
	}
	return certificate
}

// TestSnapshotControllerSaysWhatIsMissing has the objects of the add-on's page.
func TestSnapshotControllerSaysWhatIsMissing(t *testing.T) {
	version := "v" + releases.Newest("volume-snapshots").Version
	r := runs(t, upstream.FileOf{Component: "snapshot-controller-" + version, Name: "snapshot-controller"},
		row{module: "github.com/kubernetes-csi/external-snapshotter/client/v8@" + version, manifests: []string{"config/crd/*snapshot*.yaml"}})
	controlplane.Apply(t, r.cluster, docexamples.File(t, "../../../docs/addons/volume-snapshots.md", "snapshot.yaml"))
	found := r.shows(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}, "default", "lost", "cannot get claim from snapshot", "status", "error", "message")
	t.Log(unstructured.NestedString(found.Object, "status", "error", "message"))
}
