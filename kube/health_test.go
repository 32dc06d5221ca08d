package kube_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/kube"
)

func TestHealth(t *testing.T) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, generation: 2}\nspec: {replicas: 1}\n"
	rolledOut := "status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}"
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n"
	tests := []struct {
		name, object string
		state        kube.State
		reason       string
	}{
		{"an object that has no status is ready", configMap, kube.Ready, ""},
		{"an object that is being deleted is not", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}", kube.Waiting, "being deleted"},
		{"a deployment nobody looked at waits", deployment, kube.Waiting, "0/1"},
		{"a deployment rolled out is ready", deployment + rolledOut, kube.Ready, ""},
		{"a deployment whose change was not observed waits", strings.Replace(deployment, "generation: 2", "generation: 3", 1) + rolledOut, kube.Waiting, "generation"},
		{"a deployment past its deadline waits, for it may recover", deployment +
			"status: {observedGeneration: 2, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]}", kube.Waiting, "deadline"},
		{"a daemon set without a status waits", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a, generation: 1}", kube.Waiting, "observedGeneration"},
		{"a daemon set on every node is ready", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a, generation: 1}\n" +
			"status: {observedGeneration: 1, desiredNumberScheduled: 1, currentNumberScheduled: 1, updatedNumberScheduled: 1, numberAvailable: 1, numberReady: 1}", kube.Ready, ""},
		{"a stateful set with too few pods waits", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {replicas: 2}\nstatus: {replicas: 1}", kube.Waiting, "1/2"},
		{"a job that runs waits", job + "status: {startTime: '2026-01-01T00:00:00Z', active: 1}", kube.Waiting, "1 pods active"},
		{"a job that is complete is ready", job + "status: {conditions: [{type: Complete, status: 'True'}]}", kube.Ready, ""},
		{"a job that failed is broken", job + "status: {conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: too often}]}", kube.Broken, "BackoffLimitExceeded: too often"},
		{"a job that is suspended is ready", job + "status: {conditions: [{type: Suspended, status: 'True'}]}", kube.Ready, ""},
		{"a pod that failed is broken", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus: {phase: Failed, reason: Evicted, message: no disk}", kube.Broken, "Evicted: no disk"},
		{"an API extension that says nothing waits", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}", kube.Waiting, "Available is not reported"},
		{"an API extension that is down waits", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: Available, status: 'False', reason: MissingEndpoints, message: none}]}", kube.Waiting, "MissingEndpoints: none"},
		{"an API extension that is up is ready", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: Available, status: 'True'}]}", kube.Ready, ""},
		{"a definition not established waits", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}", kube.Waiting, "nstall"},
		{"a definition whose names are taken is broken", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: NamesAccepted, status: 'False', message: taken}]}", kube.Broken, "taken"},
		{"a namespace without a phase waits", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}", kube.Waiting, "phase"},
		{"a custom object with a False condition of K-23 waits", "apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: Healthy, status: 'False', reason: Sick}]}", kube.Waiting, "Healthy is False: Sick"},
		{"a custom object with an Unknown condition is ready", "apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nstatus: {conditions: [{type: Healthy, status: Unknown}]}", kube.Ready, ""},
		{"a gateway that is not programmed waits", "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: a}\n" +
			"status: {conditions: [{type: Programmed, status: 'False', message: no address}]}", kube.Waiting, "no address"},
		{"conditions of the wrong shape do not count", "apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nstatus: {conditions: []}", kube.Ready, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state, reason := kube.Health(parse(t, tt.object)[0])
			if state != tt.state || !strings.Contains(reason, tt.reason) {
				t.Errorf("got %s, %q; want %s, %q", state, reason, tt.state, tt.reason)
			}
		})
	}
}
