package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sealift/sealift/kube"
)

// TestEmptyStringDataIsEncoded compares a key without a value with the API server's own result.
func TestEmptyStringDataIsEncoded(t *testing.T) {
	c := newCluster(t)
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: NS}\nstringData: {k: null, l: x}"
	c.create(fmt.Sprintf(secret, "theirs"))
	c.apply(kube.ApplyOptions{}, fmt.Sprintf(secret, "ours"))
	want, got := fmt.Sprint(c.get("v1/secrets", "theirs").Object["data"]), fmt.Sprint(c.get("v1/secrets", "ours").Object["data"])
	if got != want {
		t.Errorf("data is %s, and the server makes %s of it", got, want)
	}
}

func TestManifestIsNotRepeatedInItsError(t *testing.T) {
	c := newCluster(t)
	const depth = 9000
	deep := strings.Repeat("{a: ", depth) + "secret" + strings.Repeat("}", depth)
	objs := c.objects("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: deep, namespace: NS}\ndata: {k: " + deep + "}")
	_, err := c.Apply(t.Context(), c.set, objs, kube.ApplyOptions{})
	if err == nil || len(err.Error()) > 2000 || !strings.Contains(err.Error(), ".data.k: expected string, got a value of another type") {
		t.Errorf("%.3000v", err)
	}
}
