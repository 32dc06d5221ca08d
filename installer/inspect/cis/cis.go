// Package cis compares a running node with the CIS Kubernetes Benchmark 1.8: control plane, etcd, node and policies.
//
// It reads files, modes and owners on the node, and asks the API of the cluster. It changes nothing, and needs only the
// cluster's network. The numbers are the benchmark's; the words are ours.
package cis

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// Benchmark names the benchmark of a node.
const Benchmark = "CIS Kubernetes Benchmark 1.8"

// Status is how a check ended.
type Status string

// The statuses.
const (
	Met           Status = "met"
	NotMet        Status = "not met"
	NotApplicable Status = "not applicable"
)

// Result is one check on this node.
type Result struct {
	ID     string `json:"id"`
	Title  string `json:"title"` // the benchmark's requirement
	Status Status `json:"status"`
	Found  string `json:"found,omitempty"`  // the value on this node
	Reason string `json:"reason,omitempty"` // why it is not met, or not applicable
}

// Report has the results in the order of their numbers.
type Report struct {
	Benchmark string   `json:"benchmark"`
	Node      string   `json:"node"`
	Results   []Result `json:"results"`
}

// Count counts the results with a status.
func (r Report) Count(s Status) (n int) {
	for _, one := range r.Results {
		if one.Status == s {
			n++
		}
	}
	return n
}

// Host is the subject of a report.
type Host struct {
	Name   string
	Rootfs string               // folder with the files of the host; "" for this host
	API    kubernetes.Interface // with the rights of a control plane; nil on a worker
}

// finding is the result of a check.
type finding struct {
	status Status
	found  string
	reason string
}

func met(found string) finding            { return finding{status: Met, found: found} }
func notMet(found, reason string) finding { return finding{NotMet, found, reason} }
func notApplicable(reason string) finding { return finding{status: NotApplicable, reason: reason} }
func judge(ok bool, found, reason string) finding {
	if ok {
		return met(found)
	}
	return notMet(found, reason)
}

// check is a row of the benchmark. Why replaces the reason if the check is not met.
type check struct {
	id, title string
	find      func(context.Context, *facts) (finding, error)
	why       string
}

// Look makes the report of a host.
func Look(ctx context.Context, h Host) (Report, error) {
	r := Report{Benchmark: Benchmark, Node: h.Name, Results: []Result{}}
	f, err := read(h)
	if err != nil {
		return r, err
	}
	for _, c := range slices.Concat(controlPlaneFiles(), apiServer(), controllers(), etcd(), controlPlaneConfiguration(), nodeFiles(), kubelet(), access(), podSecurity(), policies()) {
		found, err := c.find(ctx, f)
		if err != nil {
			return r, fmt.Errorf("check %s: %w", c.id, err)
		}
		if found.status == NotMet && c.why != "" {
			found.reason = c.why
		}
		r.Results = append(r.Results, Result{ID: c.id, Title: c.title, Status: found.status, Found: found.found, Reason: found.reason})
	}
	return r, nil
}

// onControlPlane skips a check on other nodes.
func onControlPlane(find func(context.Context, *facts) (finding, error)) func(context.Context, *facts) (finding, error) {
	return func(ctx context.Context, f *facts) (finding, error) {
		if !f.controlPlane() {
			return notApplicable("this node is a worker"), nil
		}
		return find(ctx, f)
	}
}

// manifest is the file of a static pod.
func manifest(component string) string {
	return filepath.Join(kubeadm.Manifests, component+".yaml")
}
