//go:build grid

package airgap_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// kept is a pod with a volume that Velero copies: it is not of the kind hostPath.
const kept = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: kept, annotations: {volumeType: local}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: kept, namespace: kept}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: kept
    image: docker.io/library/busybox:1.35.0
    imagePullPolicy: IfNotPresent
    command: [sleep, "86400"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// TestVeleroRestoresVolumeOnOtherNode backs up a namespace with a volume to the object store, deletes it, takes its node out of use, and restores
// it on the other node. Then the page of the add-on is followed, to its removal.
func TestVeleroRestoresVolumeOnOtherNode(t *testing.T) {
	r, without := buildWith(t, "object-store", "velero"), buildWith(t, "object-store")
	first, worker := node{lab.Host(t, host.Spec{USB: []string{r.usb, without.usb}}), t}, node{lab.Host(t, host.Spec{}), t}
	first.writesSite("velero: {keep: 30d}")
	first.refuses(install+site, 3, "velero.keep must be hours such as 720h")
	first.must(install)
	worker.must(first.joinCommand(""))
	first.must(kubectl + "wait node/" + worker.Name() + " --for condition=Ready --timeout 180s")
	first.must(kubectl + "--namespace velero rollout status daemonset/node-agent --timeout 300s")

	const velero = kubectl + "--namespace velero exec deployment/velero -- /velero "
	in := func(of node) string {
		return kubectl + "--namespace kept wait pod/kept --for jsonpath='{.spec.nodeName}'=" + of.Name() + " --timeout 60s"
	}
	first.must(kubectl + "create namespace kept && " + kubectl + "cordon " + first.Name() + " && " + kubectl + "apply -f - <<'END'\n" + kept + "END")
	first.must(kubectl + "--namespace kept wait pod/kept --for condition=Ready --timeout 180s && " + in(worker))
	first.must(kubectl + "--namespace kept exec kept --container kept -- sh -c 'head -c 4194304 /dev/urandom >/data/file; chown 1234:5678 /data/file; chmod 0640 /data/file'")
	state := kubectl + "--namespace kept exec kept --container kept -- sh -c 'sha256sum /data/file; stat -c %u:%g:%a /data/file'"
	before := first.must(state)

	first.must(velero + "backup create kept --include-namespaces kept --wait | grep 'status: Completed'")
	first.must(kubectl + "delete namespace kept --timeout 180s && " + kubectl + "uncordon " + first.Name() + " && " + kubectl + "cordon " + worker.Name())
	first.must(velero + "restore create kept --from-backup kept --wait | grep 'status: Completed'")
	first.must(kubectl + "--namespace kept wait pod/kept --for condition=Ready --timeout 180s && " + in(first))
	if after := first.must(state); after != before {
		t.Errorf("restored: %s, before: %s", after, before)
	}

	first.must(kubectl + "uncordon " + worker.Name() + " && " + kubectl + "delete namespace kept --timeout 180s")
	first.pulled()
	if out := first.must(install); !strings.Contains(out, "nothing to do") {
		t.Errorf("second run:\n%s", out)
	}
	first.followsAddOn("addons/velero.md", "")
	first.leaves("velero")
}
