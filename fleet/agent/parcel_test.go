package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestReportsContinueUnderNewKey uses a cluster that joined again after its hub got a new key. The hub takes only reports with
// numbers above those that it took before.
func TestReportsContinueUnderNewKey(t *testing.T) {
	var keys []signature.PublicKey
	for range 2 {
		_, public := fixture.SigningKey(t)
		keys = append(keys, public)
	}
	local := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: nameOfMarks(keys[0]), Namespace: Namespace},
		Data:       map[string]string{parcelField: `{"sequence":9,"report":17,"done":true}`},
	})
	for i, sequence := range []int64{9, 0} {
		w := &carrier{agent: &agent{marks: marks{client: local.CoreV1(), known: make(map[string]*corev1.ConfigMap)}}, key: keys[i]}
		if _, err := w.recall(t.Context()); err != nil || w.last.Report != 17 || w.last.Sequence != sequence {
			t.Errorf("key %d: %+v %v", i, w.last, err)
		}
	}
}
