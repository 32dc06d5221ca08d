package volume

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
)

// bound creates a volume of a node that is bound to a claim, and waits for the controllers to confirm.
func bound(t *testing.T, client kubernetes.Interface, name, node string) *corev1.PersistentVolume {
	t.Helper()
	storage := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	none := ""
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kept": "yes"}}, Spec: corev1.PersistentVolumeSpec{
		Capacity: storage, AccessModes: modes, NodeAffinity: on(node), PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv/" + name}},
	}}
	if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: modes, StorageClassName: &none, VolumeName: name, Resources: corev1.VolumeResourceRequirements{Requests: storage},
	}}
	if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), pvc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return awaitBound(t, client, name, node)
}

// awaitBound waits until a volume of a node and its claim are Bound.
func awaitBound(t *testing.T, client kubernetes.Interface, name, node string) *corev1.PersistentVolume {
	t.Helper()
	var last string
	for range 600 {
		pv, err := client.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		claim, err := client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		value := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
		last = "volume " + string(pv.Status.Phase) + " on " + value + ", claim " + string(claim.Status.Phase)
		if last == "volume Bound on "+node+", claim Bound" {
			return pv
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s: %s", name, last)
	return nil
}

func TestVolumesMoveToRenamedNode(t *testing.T) {
	config := controlplane.ForTest(t, "persistentvolume-binder-controller", "persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller")
	client := newClient(t, config)
	was := bound(t, client, "data", "old")
	elsewhere := bound(t, client, "elsewhere", "third")
	memory := filepath.Join(t.TempDir(), "volumes")
	names := []string{"data", "elsewhere", "gone"}

	// the API refuses to make the volume, as if the command were killed after it was deleted
	refusing := controlplane.Through(t, config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/persistentvolumes") {
			http.Error(w, "not now", http.StatusInternalServerError)
			return
		}
		pass.ServeHTTP(w, r)
	})
	if err := Renamed(t.Context(), newClient(t, refusing), names, "old", "new", memory, io.Discard); err == nil {
		t.Fatal("a volume is made by nobody")
	}
	var said bytes.Buffer
	for range 2 {
		if err := Renamed(t.Context(), client, names, "old", "new", memory, &said); err != nil {
			t.Fatal(err)
		}
	}
	is := awaitBound(t, client, "data", "new")
	if is.UID == was.UID || is.Labels["kept"] != "yes" || is.Spec.ClaimRef.UID != was.Spec.ClaimRef.UID || is.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("%+v", is)
	}
	if got := awaitBound(t, client, "elsewhere", "third"); got.UID != elsewhere.UID {
		t.Error("a volume of another node was made again")
	}
	if got := said.String(); got != "volume data is one of node new now\n" {
		t.Error(got)
	}
	if left, err := os.ReadDir(memory); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

func newClient(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
