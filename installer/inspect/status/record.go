package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/redact"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/spec/record"
)

// Record describes what the cluster of this control plane runs: its bundle and Installer on this node, its add-ons in the
// journal, and its nodes. sealift is the version of this program.
func Record(ctx context.Context, root, sealift string) (record.Record, error) {
	view, err := cluster.NewView()
	if err != nil {
		return record.Record{}, err
	}
	if view == nil || view.Own {
		return record.Record{}, errors.New("this host is not a control plane; make the record on one")
	}
	return recordOf(ctx, root, sealift, view)
}

func recordOf(ctx context.Context, root, sealift string, view *cluster.View) (r record.Record, err error) {
	r = record.Record{Format: record.Format, Time: time.Now().UTC().Truncate(time.Second), Sealift: sealift}
	installed, err := bundle.Open(root)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("no bundle was installed on this node, so a new one cannot omit anything; use 'sealift bundle --upgrade-from' with the version of Kubernetes: %w", err)
	}
	if err != nil {
		return r, fmt.Errorf("the installed bundle of this node: %w", err)
	}
	defer func() { err = errors.Join(err, installed.Close()) }()
	r.Bundle = installed.Digest
	whole, err := installerOf(root)
	if err != nil {
		return r, err
	}
	if r.Installer, err = public(whole); err != nil {
		return r, err
	}
	records, err := lifecycle.ReadJournal(node.StateDir(root))
	if err != nil {
		return r, err
	}
	versions := install.Versions(records)
	r.AddOns = addOnsOf(whole, versions)
	for _, p := range installed.Index.Packages {
		if runs := versions[p.Name]; runs == "" || runs == p.Version { // the kubelet may have removed the images of an upgrade's intermediate versions
			r.Packages = append(r.Packages, record.Package{Name: p.Name, Version: p.Version, Index: p.Index, Lean: installed.Index.LeanLayers(p)})
		}
	}
	nodes, err := view.Nodes(ctx)
	if err != nil {
		return r, err
	}
	for _, n := range nodes {
		version := strings.TrimPrefix(n.Version, "v")
		if r.Kubernetes == "" || catalog.CompareVersions(version, r.Kubernetes) < 0 {
			r.Kubernetes = version
		}
		r.Nodes = append(r.Nodes, record.Node{Name: n.Name, Roles: n.Roles, Kubelet: version, Runtime: n.Runtime, OS: n.OS, Kernel: n.Kernel, Architecture: n.Architecture})
	}
	return r, nil
}

// installerOf reads the installed Installer.
func installerOf(root string) (*spec.Installer, error) {
	text, err := node.ReadInstaller(root)
	if err != nil {
		return nil, err
	}
	return spec.Parse("Installer of the cluster", strings.NewReader(string(text)))
}

// public writes an Installer without secrets. The settings of hosts are left out: they have proxies, commands and charts.
func public(whole *spec.Installer) (string, error) {
	part, redactor := *whole, redact.New()
	part.Sections, part.AddOns = nil, slices.Clone(whole.AddOns)
	for n, a := range part.AddOns {
		part.AddOns[n].Options, _ = redact.WithoutSecrets(map[string]any(a.Options), redactor.Masks).(map[string]any)
	}
	text, err := part.Canonical()
	return string(text), err
}

// addOnsOf are the add-ons of a cluster. The journal knows which version runs, but not of add-ons that were applied from another
// control plane: for those, the Installer does.
func addOnsOf(whole *spec.Installer, versions map[string]string) (addOns []record.AddOn) {
	for _, a := range whole.AddOns {
		if versions[a.Name] == "" {
			versions[a.Name] = a.Version
		}
	}
	for name, version := range versions {
		addOns = append(addOns, record.AddOn{Name: name, Version: version})
	}
	slices.SortFunc(addOns, func(a, b record.AddOn) int { return strings.Compare(a.Name, b.Name) })
	return addOns
}
