package volume

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestUndeletedVolumeIsReported uses an API that deletes nothing.
func TestUndeletedVolumeIsReported(t *testing.T) {
	memory := filepath.Join(t.TempDir(), "volumes")
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeSpec{NodeAffinity: on("old")}}
	client := fake.NewClientset(pv)
	client.PrependReactor("delete", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Renamed(ctx, client, []string{"data"}, "old", "new", memory, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "gave up after 1m0s: volume data still exists") {
			t.Errorf("got %v", err)
		}
	})
}
