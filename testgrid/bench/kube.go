package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sealift/sealift/testgrid/controlplane"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// kubeObjects is how many objects are applied: kubeNamespaces namespaces, and in each as many groups of the kinds that
// add-ons are made of.
const (
	kubeObjects    = 2000
	kubeNamespaces = 10
)

// kubeGroup is what one part of an add-on brings along. %s is its name.
const kubeGroup = `apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, labels: {app: %[1]s}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s, labels: {app: %[1]s}}
data: {config.yaml: "listen: :8080\nlog: {level: info, format: json}\nfeatures: [metrics, tracing, profiling]\n", mode: standalone}
---
apiVersion: v1
kind: Secret
metadata: {name: %[1]s, labels: {app: %[1]s}}
data: {password: c2VjcmV0LW9mLXRoZS1iZW5jaA==}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s, labels: {app: %[1]s}}
rules: [{apiGroups: [""], resources: [configmaps, secrets], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, labels: {app: %[1]s}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s}]
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec: {selector: {app: %[1]s}, clusterIP: None, ports: [{name: http, port: 80, targetPort: 8080}, {name: metrics, port: 9090}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, labels: {app: %[1]s}}
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
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: %[1]s}}}
---
`

// kubeSide is a program that applies the kustomization of the folder it runs in to the cluster of ./kubeconfig.
type kubeSide struct{ name, script string }

// applies measures what it takes to apply one kustomization, first to a cluster that has none of it, then once more.
func (b *bench) applies(ctx context.Context) error {
	workshop, err := upstream.NewWorkshop(upstream.Options{Progress: func(line string) { fmt.Fprintln(os.Stderr, line) }})
	if err != nil {
		return err
	}
	kubectl, err := workshop.File(ctx, upstream.FileOf{Component: "kubernetes-" + controlplane.DefaultVersion, Name: "kubectl"})
	if err != nil {
		return err
	}
	sides := []kubeSide{
		{"kubectl apply --server-side -k", kubectl + " --kubeconfig kubeconfig apply --server-side -k . >/dev/null"},
		{"sealift apply -k", b.sealift + " apply --kubeconfig kubeconfig --set bench -k . >/dev/null"},
	}
	// Each case has a control plane to itself: the objects of the one before shall not be in its way.
	var plane *controlplane.ControlPlane
	defer func() {
		if plane != nil {
			_ = plane.Stop()
		}
	}()
	fresh := func(dir string) error {
		if plane != nil {
			if err := plane.Stop(); err != nil {
				return err
			}
		}
		if plane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
			return err
		}
		return writeKustomization(dir, plane)
	}
	var first, again []benchCase
	for _, side := range sides {
		first = append(first, benchCase{name: side.name, prepare: fresh, script: side.script})
		again = append(again, benchCase{name: side.name + ", again", script: side.script, prepare: func(dir string) error {
			if err := fresh(dir); err != nil {
				return err
			}
			return b.shell(dir, side.script)
		}})
	}
	title := fmt.Sprintf("apply: %d objects of 9 kinds in %d namespaces", kubeObjects, kubeNamespaces)
	if err := b.table(ctx, title, first); err != nil {
		return err
	}
	return b.table(ctx, title+", when nothing has changed", again)
}

// writeKustomization writes a kustomization for each namespace, one over them all, and how to reach the control plane.
func writeKustomization(dir string, plane *controlplane.ControlPlane) error {
	cfg := plane.Config()
	file := clientcmdapi.NewConfig()
	file.Clusters["bench"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	file.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}
	file.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	file.CurrentContext = "bench"
	if err := clientcmd.WriteToFile(*file, filepath.Join(dir, "kubeconfig")); err != nil {
		return err
	}
	perGroup := bytes.Count([]byte(kubeGroup), []byte("---\n"))
	groups := (kubeObjects/kubeNamespaces - 1) / perGroup // the namespace itself is an object too
	filler := kubeObjects/kubeNamespaces - 1 - groups*perGroup
	var top bytes.Buffer
	top.WriteString("resources:\n")
	for n := range kubeNamespaces {
		name := fmt.Sprintf("bench-%d", n)
		fmt.Fprintf(&top, "- %s\n", name)
		var objects bytes.Buffer
		fmt.Fprintf(&objects, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\n", name)
		for g := range groups {
			fmt.Fprintf(&objects, kubeGroup, fmt.Sprintf("part-%d", g))
		}
		for f := range filler {
			fmt.Fprintf(&objects, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: filler-%d}\ndata: {key: value}\n---\n", f)
		}
		sub := filepath.Join(dir, name)
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(sub, "objects.yaml"), objects.Bytes(), 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(sub, "kustomization.yaml"), []byte("namespace: "+name+"\nresources: [objects.yaml]\n"), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "kustomization.yaml"), top.Bytes(), 0o600)
}
