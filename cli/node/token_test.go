package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/token"
	"github.com/sealift/sealift/installer/operation/exclusion"
)

func TestCreatedTokenIsPrintedAsTextOrJSON(t *testing.T) {
	admin := controlplane.Administrator{Client: fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}})}
	create := func(format string) string {
		var out bytes.Buffer
		if err := (commands{App: &app.App{Out: &out}}).createToken(t.Context(), admin, tokenOptions{ttl: time.Hour, renew: "worker-1", format: format}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(create("json")), &document); err != nil {
		t.Fatal(err)
	}
	command, _ := document["command"].(string)
	expires, err := time.Parse(time.RFC3339, document["expires"].(string))
	if err != nil || time.Until(expires) > time.Hour || time.Until(expires) < 50*time.Minute || document["controlPlane"] != false || len(document) != 3 ||
		!strings.HasPrefix(command, "echo '") || !strings.HasSuffix(command, " certs renew --token -") {
		t.Errorf("got %v, %v", document, err)
	}
	if text := create(""); strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, " certs renew --token -\n") {
		t.Errorf("got %q", text)
	}
	if all, err := token.List(t.Context(), admin.Client); err != nil || len(all) != 2 {
		t.Errorf("the cluster has the tokens %v, %v", all, err)
	}
}

func TestControlPlaneTokenWaitsForUnfinishedOperation(t *testing.T) {
	admin := controlplane.Administrator{Client: fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "sealift-upgrade"},
		Data:       map[string]string{"state.json": `{"from":"1.35.4","to":"1.36.3","phase":"nodes","leader":"host-1","snapshot":"/var/lib/snapshot"}`},
	})}
	err := (commands{App: &app.App{}}).createToken(t.Context(), admin, tokenOptions{ttl: time.Hour, controlPlane: true})
	if refused, ok := errors.AsType[*exclusion.Error](err); !ok {
		t.Errorf("got %v, %v", refused, err)
	}
	if all, err := token.List(t.Context(), admin.Client); err != nil || len(all) != 0 {
		t.Errorf("the cluster has the tokens %v, %v", all, err)
	}
}
