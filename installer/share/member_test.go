package share_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/share"
	"github.com/sealift/sealift/testgrid/pki"
)

// TestNodesOfTheClusterNeedNoToken gives the certificate of a kubelet what a worker's token gives, and other certificates nothing.
func TestNodesOfTheClusterNeedNoToken(t *testing.T) {
	n := serve(t)
	client := func(certificate string) *share.Client {
		c, err := share.NewMemberClient(n.address, filepath.Join(n.pki, "ca.crt"), certificate)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	kubelet := client(pki.Client(t, n.pki, "system:node:host-1", "system:nodes"))
	if c, err := kubelet.Cluster(t.Context()); err != nil || c.Installer != "part" {
		t.Errorf("a kubelet gets %+v, %v", c, err)
	}
	archive, err := kubelet.Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.ReadFile("addons/a/1/install.sh", 1<<20); err != nil {
		t.Errorf("a kubelet asks for a file: %v", err)
	}
	if _, err := archive.ReadFile(bundle.InstallerName, 1<<20); err == nil {
		t.Error("a kubelet gets the Installer, which may have secrets")
	}
	controlPlane := client(pki.Client(t, n.pki, "system:node:host-3", "system:nodes"))
	if c, err := controlPlane.Cluster(t.Context()); err != nil || c.Installer != "whole" {
		t.Errorf("a control plane gets %+v, %v", c, err)
	}
	if archive, err = controlPlane.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.ReadFile(bundle.InstallerName, 1<<20); err != nil {
		t.Errorf("a control plane asks for the Installer: %v", err)
	}
	var program bytes.Buffer
	if err := kubelet.Program(t.Context(), &program); err != nil || !strings.HasPrefix(program.String(), "#!/bin/sh") {
		t.Errorf("a kubelet asks for sealift: %v", err)
	}
	for who, certificate := range map[string]string{
		"a node that was removed":           pki.Client(t, n.pki, "system:node:host-2", "system:nodes"),
		"a user with the name of a node":    pki.Client(t, n.pki, "system:node:host-1", "users"),
		"a user in the group of nodes":      pki.Client(t, n.pki, "host-1", "system:nodes"),
		"an administrator":                  pki.Client(t, n.pki, "kubernetes-admin", "system:masters"),
		"the kubelet of another cluster":    pki.Client(t, pki.New(t), "system:node:host-1", "system:nodes"),
		"a file that is not a certificate":  filepath.Join(n.pki, "ca.key"),
		"a certificate that does not exist": filepath.Join(n.pki, "none"),
	} {
		if c, err := client(certificate).Cluster(t.Context()); err == nil {
			t.Errorf("%s gets %+v", who, c)
		} else if strings.HasPrefix(who, "a node") && !errors.Is(err, share.ErrMember) {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// TestOnlyControlPlanesOfAnUndoGetItsSnapshot gives the order and the snapshot to the nodes that the order names. The API is not asked.
func TestOnlyControlPlanesOfAnUndoGetItsSnapshot(t *testing.T) {
	n := serve(t)
	ask := func(certificate string) (order, etcd string, err error) {
		c, err := share.NewMemberClient(n.address, filepath.Join(n.pki, "ca.crt"), certificate)
		if err != nil {
			t.Fatal(err)
		}
		text, err := c.Order(t.Context())
		if err != nil {
			return "", "", err
		}
		var content bytes.Buffer
		err = c.Etcd(t.Context(), &content)
		return string(text), content.String(), err
	}
	controlPlane := pki.Client(t, n.pki, "system:node:host-5", "system:nodes")
	if _, _, err := ask(controlPlane); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without an undo: %v", err)
	}
	snapshot := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(snapshot, []byte("all Secrets"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.undo = func(name string) (share.Undo, error) {
		if name != "host-5" {
			return share.Undo{}, share.ErrMember
		}
		return share.Undo{Order: []byte("{}"), Etcd: snapshot}, nil
	}
	if order, etcd, err := ask(controlPlane); err != nil || order != "{}" || etcd != "all Secrets" {
		t.Errorf("a control plane gets %q, %q, %v", order, etcd, err)
	}
	for who, certificate := range map[string]string{
		"another node":                   pki.Client(t, n.pki, "system:node:host-1", "system:nodes"),
		"a user in the group of nodes":   pki.Client(t, n.pki, "host-5", "system:nodes"),
		"an administrator":               pki.Client(t, n.pki, "kubernetes-admin", "system:masters"),
		"the kubelet of another cluster": pki.Client(t, pki.New(t), "system:node:host-5", "system:nodes"),
	} {
		if order, _, err := ask(certificate); err == nil {
			t.Errorf("%s gets %s", who, order)
		}
	}
	c, err := share.NewClient(n.address, token, n.caHash)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := c.Order(t.Context()); err == nil {
		t.Errorf("a host with a token gets %s", text)
	}
}
