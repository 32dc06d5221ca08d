package kube_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/health"
)

// soon is a bound for waits that shall fail, and often the pause of those that shall not.
const (
	soon  = time.Second
	often = 20 * time.Millisecond
)

func rolledOut(content map[string]any) {
	content["status"] = map[string]any{"observedGeneration": int64(1), "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1),
		"availableReplicas": int64(1), "conditions": []any{map[string]any{"type": "Available", "status": "True"},
			map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}}}
}

func TestWaitEndsWhenAllAreReady(t *testing.T) {
	c := newCluster(t)
	docs := []string{configMapOf("a", "1"), webDeployment}
	c.apply(kube.ApplyOptions{}, docs...)
	var seen []string
	err := c.Wait(t.Context(), c.objects(docs...), kube.WaitOptions{Timeout: time.Minute, Interval: often, Progress: func(s kube.ObjectState) {
		if len(seen) == 0 || seen[len(seen)-1] != s.Object.Kind+" "+string(s.State) {
			seen = append(seen, s.Object.Kind+" "+string(s.State))
		}
		if s.Object.Kind == "Deployment" && s.State == health.Waiting { // the controller handles it during the wait
			c.update("apps/v1/deployments", "web", "kube-controller-manager", rolledOut, "status")
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if last := seen[len(seen)-1]; last != "Deployment ready" {
		t.Errorf("progress: %v", seen)
	}
}

func TestWaitTakesMembersFromCluster(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, configMapOf("a", "1"), webDeployment)
	members, err := c.Members(t.Context(), c.set)
	if err != nil || len(members) != 2 {
		t.Fatalf("%d members, error %v", len(members), err)
	}
	var wait *kube.WaitError
	if err := c.Wait(t.Context(), members, kube.WaitOptions{Timeout: soon, Interval: often}); !errors.As(err, &wait) || len(wait.Objects) != 1 || wait.Objects[0].Object.Kind != "Deployment" {
		t.Errorf("before the roll-out: %v", err)
	}
	c.update("apps/v1/deployments", "web", "kube-controller-manager", rolledOut, "status")
	if err := c.Wait(t.Context(), members, kube.WaitOptions{Timeout: time.Minute, Interval: often}); err != nil {
		t.Errorf("after the roll-out: %v", err)
	}
	if none, err := c.Members(t.Context(), kube.Set{Name: "nobody-applied-this"}); err != nil || len(none) > 0 {
		t.Errorf("a set that does not exist: %v, %v", none, err)
	}
}

func TestWaitReportsReasonAndDurationPerObject(t *testing.T) {
	c := newCluster(t)
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: web-x, namespace: NS, labels: {app: web}}\nspec: {containers: [{name: web, image: example.com/web:1}]}"
	set := strings.NewReplacer("Deployment", "DaemonSet", "  replicas: 1\n", "", "web", "agent").Replace(webDeployment)
	docs := []string{configMapOf("a", "1"), webDeployment, set}
	c.apply(kube.ApplyOptions{}, docs...)
	c.create(pod)
	c.update("v1/pods", "web-x", "kubelet", func(content map[string]any) {
		content["status"] = map[string]any{"phase": "Pending", "containerStatuses": []any{map[string]any{"name": "web", "image": "", "imageID": "", "ready": false, "restartCount": int64(0),
			"state": map[string]any{"waiting": map[string]any{"reason": "ImagePullBackOff", "message": "no such image"}}}}}
	}, "status")
	agent := c.get("apps/v1/daemonsets", "agent")
	c.create("apiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: NS}\ntype: Warning\nreason: FailedCreate\nmessage: quota exceeded\n" +
		"lastTimestamp: '2026-01-01T00:00:00Z'\ninvolvedObject: {apiVersion: apps/v1, kind: DaemonSet, name: agent, namespace: NS, uid: " + string(agent.GetUID()) + "}")

	err := c.Wait(t.Context(), append(c.objects(docs...), c.objects(configMapOf("gone", "1"))...), kube.WaitOptions{Timeout: soon, Interval: often})
	if _, ok := errors.AsType[*kube.WaitError](err); !ok {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{
		"3 of 4 objects are not ready",
		"Deployment/" + c.ns + "/web is not ready after ",
		"pod web-x: container web: ImagePullBackOff: no such image",
		"DaemonSet/" + c.ns + "/agent is not ready after ",
		"FailedCreate: quota exceeded",
		"ConfigMap/" + c.ns + "/gone is not ready after ",
		"s: it does not exist",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q:\n%v", want, err)
		}
	}
}

func TestWaitEndsAtOnceWhenJobHasFailed(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, migrateJob)
	c.update("batch/v1/jobs", "migrate", "kube-controller-manager", func(content map[string]any) {
		now := "2026-01-01T00:00:00Z"
		condition := func(kind string) any {
			return map[string]any{"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "too often", "lastTransitionTime": now}
		}
		content["status"] = map[string]any{"startTime": now, "failed": int64(7), "conditions": []any{condition("FailureTarget"), condition("Failed")}}
	}, "status")
	err := c.Wait(t.Context(), c.objects(migrateJob), kube.WaitOptions{Timeout: time.Hour, Interval: often})
	if err == nil || !strings.Contains(err.Error(), "is broken: it has failed: BackoffLimitExceeded: too often") {
		t.Error(err)
	}
}

func TestWaitAcceptsLateBindingClaim(t *testing.T) {
	c := newCluster(t)
	late := strings.Replace(claim, "spec: {", "spec: {storageClassName: NS, ", 1)
	class := "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NS}\nprovisioner: example.com/none\nvolumeBindingMode: WaitForFirstConsumer"
	c.apply(kube.ApplyOptions{}, late, class)
	if err := c.Wait(t.Context(), c.objects(late, class), kube.WaitOptions{Timeout: time.Minute}); err != nil {
		t.Error(err)
	}
	now := strings.Replace(late, "name: data", "name: now", 1)
	c.apply(kube.ApplyOptions{}, strings.Replace(now, "storageClassName: NS", "storageClassName: ''", 1))
	if err := c.Wait(t.Context(), c.objects(now), kube.WaitOptions{Timeout: soon, Interval: often}); err == nil {
		t.Error("a claim without a class that binds late is not ready")
	}
}

func TestWaitEndsWhenCallerCancels(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.ApplyOptions{}, webDeployment)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := c.Wait(ctx, c.objects(webDeployment), kube.WaitOptions{Timeout: time.Hour, Interval: often, Progress: func(kube.ObjectState) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestWaitToleratesLateKind(t *testing.T) {
	c := newCluster(t)
	widget := "apiVersion: NS.example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: NS}"
	brought := false
	err := c.Wait(t.Context(), c.objects(widget), kube.WaitOptions{Timeout: time.Minute, Interval: often, Progress: func(s kube.ObjectState) {
		if !brought {
			brought = true
			c.apply(kube.ApplyOptions{}, widgetDefinition, widget)
		}
	}})
	if err != nil {
		t.Error(err)
	}
	_ = c.resource("apiextensions.k8s.io/v1/customresourcedefinitions", "").Delete(t.Context(), "widgets."+c.ns+".example.com", metav1.DeleteOptions{})
}
