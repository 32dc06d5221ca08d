// Package cis compares a running node with an edition of the CIS Kubernetes Benchmark: control plane, etcd, node and policies.
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

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// Status is the outcome of a check.
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
	// Unchecked marks a result that is not applicable because nothing was compared: people decide about it, or another node knows.
	Unchecked bool `json:"-"`
}

// Report has the results in the order of their numbers.
type Report struct {
	Benchmark  string   `json:"benchmark"`
	Note       string   `json:"note,omitempty"` // that the benchmark was written for other releases of Kubernetes
	Node       string   `json:"node"`
	Kubernetes string   `json:"kubernetes"` // the version of the node
	Results    []Result `json:"results"`

	Edition Edition `json:"-"`
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
	Name       string
	Kubernetes string               // its version, such as 1.37.2
	Edition    Edition              // the zero Edition is replaced by that of EditionOf
	Rootfs     string               // folder with the files of the host; "" for this host
	API        kubernetes.Interface // with the rights of a control plane; nil on a worker
}

// finding is the result of a check.
type finding struct {
	status    Status
	found     string
	reason    string
	unchecked bool
}

func met(found string) finding { return finding{status: Met, found: found} }
func notMet(found, reason string) finding {
	return finding{status: NotMet, found: found, reason: reason}
}
func notApplicable(reason string) finding { return finding{status: NotApplicable, reason: reason} }
func unchecked(reason string) finding {
	return finding{status: NotApplicable, reason: reason, unchecked: true}
}
func judge(ok bool, found, reason string) finding {
	if ok {
		return met(found)
	}
	return notMet(found, reason)
}

// check is a row of the benchmark. Why replaces the reason if the check is not met.
type check struct {
	id    string // its number in editions from 1.12 on; "" if they do not have it
	was   string // its number in edition 1.8, if that is another one; notIn18 if it does not have it
	title string
	find  func(context.Context, *facts) (finding, error)
	why   string
}

// checks returns those of all editions.
func checks() []check {
	return slices.Concat(controlPlaneFiles(), apiServer(), controllers(), etcd(), controlPlaneConfiguration(), nodeFiles(), kubelet(), kubeProxy(),
		access(), podSecurity(), policies())
}

// Look makes the report of a host.
func Look(ctx context.Context, h Host) (Report, error) {
	if h.Edition == (Edition{}) {
		h.Edition = EditionOf(h.Kubernetes)
	}
	r := Report{Benchmark: h.Edition.Name(), Note: h.Edition.Note(h.Kubernetes), Node: h.Name, Kubernetes: h.Kubernetes, Results: []Result{}, Edition: h.Edition}
	f, err := read(h)
	if err != nil {
		return r, err
	}
	for _, c := range checks() {
		id := h.Edition.number(c)
		if id == "" {
			continue
		}
		found, err := c.find(ctx, f)
		if err != nil {
			return r, fmt.Errorf("check %s: %w", id, err)
		}
		if found.status == NotMet && c.why != "" {
			found.reason = c.why
		}
		r.Results = append(r.Results, Result{ID: id, Title: c.title, Status: found.status, Found: found.found, Reason: found.reason, Unchecked: found.unchecked})
	}
	slices.SortStableFunc(r.Results, func(a, b Result) int { return catalog.CompareVersions(a.ID, b.ID) })
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
