package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// kubeObjects is how many objects are applied: kubeNamespaces namespaces, and in each as many groups of the kinds that
// add-ons are made of.
const (
	kubeObjects    = 2000
	kubeNamespaces = 10
)

// kubeGroup is the objects of one part of an add-on, for a name and a namespace.
const kubeGroup = `apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s}}
data: {config.yaml: "listen: :8080\nlog: {level: info, format: json}\nfeatures: [metrics, tracing, profiling]\n", mode: standalone}
---
apiVersion: v1
kind: Secret
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s}}
data: {password: c2VjcmV0LW9mLXRoZS1iZW5jaA==}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s}}
rules: [{apiGroups: [""], resources: [configmaps, secrets], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s}}
spec: {selector: {app: %[1]s}, clusterIP: None, ports: [{name: http, port: 80, targetPort: 8080}, {name: metrics, port: 9090}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s}}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      serviceAccountName: %[1]s
      containers:
      - name: main
        image: registry.example.com/%[1]s:1.0
        args: [--config=/etc/app/config.yaml]
        env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: %[1]s, key: password}}}]
        ports: [{name: http, containerPort: 8080}, {name: metrics, containerPort: 9090}]
        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
        readinessProbe: {httpGet: {path: /ready, port: http}}
        volumeMounts: [{name: config, mountPath: /etc/app}]
      volumes: [{name: config, configMap: {name: %[1]s}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s}}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: %[1]s}}}
---
`

// applyTables measure applying a kustomization to an empty cluster, and then again.
func (b *bench) applyTables() (list []table) {
	size := fmt.Sprintf("apply: %d objects of 9 kinds in %d namespaces", kubeObjects, kubeNamespaces)
	for _, one := range []struct {
		title, transform string
		again            bool
	}{
		{size, "", false},
		{size + ", when nothing has changed", "", true},
		{size + ", with a label that the kustomization adds", "labels: [{pairs: {part-of: bench}}]\n", false},
		{size + ", with a label, when nothing has changed", "labels: [{pairs: {part-of: bench}}]\n", true},
	} {
		list = append(list, b.compare(one.title, func(ctx context.Context) ([]benchCase, error) {
			kubectl, err := b.workshop.File(ctx, upstream.Program("kubectl"))
			return []benchCase{
				b.applyCase(ctx, "kubectl apply --server-side -k", kubectl+" --kubeconfig kubeconfig apply --server-side -k . >/dev/null", one.transform, one.again),
				b.applyCase(ctx, "sealift apply -k", b.sealift+" apply --kubeconfig kubeconfig --set bench -k . >/dev/null", one.transform, one.again),
			}, err
		}))
	}
	return list
}

// applyCase is a script that applies the kustomization of the folder it runs in to the cluster of ./kubeconfig. Each run has
// its own control plane: the objects of the one before must not interfere.
func (b *bench) applyCase(ctx context.Context, name, script, transform string, again bool) benchCase {
	var plane *controlplane.ControlPlane
	return benchCase{
		name: name, script: script,
		prepare: func(dir string) (err error) {
			if plane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
				return err
			}
			if err = writeObjects(dir, transform); err == nil {
				err = controlplane.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), plane.Config())
			}
			if err == nil && again {
				err = b.shell(dir, script)
			}
			return err
		},
		after: func() {
			if plane != nil {
				_ = plane.Stop()
			}
		},
	}
}

// writeObjects writes a file for each namespace, and a kustomization that lists them and may transform them.
func writeObjects(dir, transform string) error {
	const perNamespace = kubeObjects / kubeNamespaces
	perGroup := strings.Count(kubeGroup, "---\n")
	var top strings.Builder
	top.WriteString(transform + "resources:\n")
	for n := range kubeNamespaces {
		name := fmt.Sprintf("bench-%d", n)
		var objects strings.Builder
		fmt.Fprintf(&objects, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\n", name)
		written := 1
		for ; written+perGroup <= perNamespace; written += perGroup {
			fmt.Fprintf(&objects, kubeGroup, fmt.Sprintf("part-%d", written), name)
		}
		for ; written < perNamespace; written++ {
			fmt.Fprintf(&objects, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more-%d, namespace: %s}\n---\n", written, name)
		}
		fmt.Fprintf(&top, "- %s.yaml\n", name)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(objects.String()), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(top.String()), 0o600)
}
