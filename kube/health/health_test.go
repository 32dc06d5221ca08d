package health_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/kube/health"
	"github.com/sealift/sealift/kube/render"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	objs, err := render.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objs[0]
}

func TestObjectsHaveStates(t *testing.T) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, generation: 2}\nspec: {replicas: 1}\n"
	rolledOut := "status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}"
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n"
	tests := []struct {
		name, object string
		state        health.State
		reason       string
	}{
		{"an object that has no status is ready", configMap, health.Ready, ""},
		{"an object that is being deleted is not", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}", health.Waiting, "being deleted"},
		{"a deployment nobody looked at waits", deployment, health.Waiting, "0/1"},
		{"a deployment rolled out is ready", deployment + rolledOut, health.Ready, ""},
		{"a deployment whose change was not observed waits", strings.Replace(deployment, "generation: 2", "generation: 3", 1) + rolledOut, health.Waiting, "generation"},
		{"a deployment past its deadline waits, for it may recover", deployment +
			"status: {observedGeneration: 2, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]}", health.Waiting, "deadline"},
		{"a daemon set without a status waits", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a, generation: 1}", health.Waiting, "observedGeneration"},
		{"a daemon set on every node is ready", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a, generation: 1}\n" +
			"status: {observedGeneration: 1, desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1, numberAvailable: 1, numberReady: 1}", health.Ready, ""},
		{"a stateful set with too few pods waits", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {replicas: 2}\nstatus: {replicas: 1}", health.Waiting, "1/2"},
		{"a job that runs waits", job + "status: {startTime: '2026-01-01T00:00:00Z', active: 1}", health.Waiting, "1 pods active"},
		{"a job that is complete is ready", job + "status: {conditions: [{type: Complete, status: 'True'}]}", health.Ready, ""},
		{"a job that failed is broken", job + "status: {conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: too often}]}", health.Broken, "BackoffLimitExceeded: too often"},
		{"a job that is suspended is ready", job + "status: {conditions: [{type: Suspended, status: 'True'}]}", health.Ready, ""},
		{"a pod that failed is broken", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus: {phase: Failed, reason: Evicted, message: no disk}", health.Broken, "Evicted: no disk"},
		{"an API extension that says nothing waits", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}", health.Waiting, "Available is not reported"},
		{"an API extension that is down waits", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: Available, status: 'False', reason: MissingEndpoints, message: none}]}", health.Waiting, "MissingEndpoints: none"},
		{"an API extension that is up is ready", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: Available, status: 'True'}]}", health.Ready, ""},
		{"a definition not established waits", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}", health.Waiting, "nstall"},
		{"a definition whose names are taken is broken", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: NamesAccepted, status: 'False', message: taken}]}", health.Broken, "taken"},
		{"a namespace without a phase waits", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}", health.Waiting, "phase"},
		{"a custom object with a False condition of K-23 waits", "apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: Healthy, status: 'False', reason: Sick}]}", health.Waiting, "Healthy is False: Sick"},
		{"a custom object with an Unknown condition is ready", "apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nstatus: {conditions: [{type: Healthy, status: Unknown}]}", health.Ready, ""},
		{"a gateway that is not programmed waits", "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: Programmed, status: 'False', message: no address}]}", health.Waiting, "no address"},
		{"conditions of the wrong shape do not count", "apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nstatus: {conditions: []}", health.Ready, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state, reason := health.Of(parse(t, tt.object))
			if state != tt.state || !strings.Contains(reason, tt.reason) {
				t.Errorf("got %s, %q; want %s, %q", state, reason, tt.state, tt.reason)
			}
		})
	}
}

func TestPodReasonIsExplained(t *testing.T) {
	tests := []struct{ name, status, want string }{
		{"ready", "{phase: Running, containerStatuses: [{name: c, ready: true, state: {running: {}}}]}", ""},
		{"done", "{phase: Succeeded, containerStatuses: [{name: c, state: {terminated: {exitCode: 0}}}]}", ""},
		{"nothing reported", "{}", ""},
		{"no node takes it", "{conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: 0/1 nodes are available}]}",
			"Unschedulable: 0/1 nodes are available"},
		{"image missing", "{containerStatuses: [{name: c, state: {waiting: {reason: ErrImageNeverPull, message: not present}}}]}",
			"container c: ErrImageNeverPull: not present"},
		{"crash loop tells how it ended", "{containerStatuses: [{name: c, state: {waiting: {reason: CrashLoopBackOff, message: back-off}}, lastState: {terminated: {exitCode: 1, reason: Error, message: no config}}}]}",
			"container c: CrashLoopBackOff: back-off (last time: exit code 1, Error: no config)"},
		{"one container of two not ready", "{containerStatuses: [{name: a, ready: true, state: {running: {}}}, {name: b, ready: false, state: {running: {}}}]}",
			"container b is running but not ready"},
		{"init container fails before the others are made", "{initContainerStatuses: [{name: i, state: {terminated: {exitCode: 2}}}], containerStatuses: [{name: c, state: {waiting: {reason: PodInitializing}}}]}",
			"container i: exit code 2"},
		{"being created", "{containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]}", health.Creating},
		{"evicted", "{phase: Failed, reason: Evicted, message: low on disk}", "Evicted: low on disk"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := health.Pod(parse(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nstatus: "+tt.status)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
