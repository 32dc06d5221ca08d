package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
)

// startedFiles are the files that kubeadm has written when it starts the kubelet, and with it a control plane.
func startedFiles() []string {
	return []string{kubeadm.AdminKubeconfig, kubeadm.Folder + "/super-admin.conf", kubeadm.Folder + "/controller-manager.conf", kubeadm.Folder + "/scheduler.conf",
		kubeadm.KubeletKubeconfig, kubeadm.EtcdManifest, kubeadm.APIServerManifest, kubeadm.ControllerManagerManifest, kubeadm.Manifests + "/kube-scheduler.yaml",
		kubeadm.KubeletFlags, kubeadm.KubeletConfig}
}

// donePhases are the phases of 'kubeadm init' that write these files, and its wait for the control plane.
const donePhases = "preflight,certs,kubeconfig,etcd,control-plane,kubelet-start,wait-control-plane"

// resume waits for a control plane that an earlier run started with the same configuration, and lets kubeadm do the remaining phases. On a
// slow host its start takes longer than all phases before it. resumed is false if there is no such control plane, or if it does not come
// up: Init then removes it and starts over.
func (k Kubeadm) resume(ctx context.Context, config string, objects []*unstructured.Unstructured) (resumed bool, err error) {
	if k.Seed != nil {
		return false, nil
	}
	earlier, err := regularfile.ReadFile(config)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if same, err := sameConfig(earlier, objects); err != nil || !same {
		return false, err
	}
	if started, err := allHaveContent(startedFiles()...); err != nil || !started {
		return false, err
	}
	if empty, err := hollow(kubeadm.PKI); err != nil || empty {
		return false, err
	}
	if hasEnded(filepath.Join(kubeadm.PKI, "apiserver.crt"), time.Now()) { // the clock was behind by more than a year
		return false, nil
	}
	if state, _ := command.UnitState(ctx, "kubelet"); state != "active" { // it was not started, or it keeps failing
		return false, ctx.Err()
	}
	fmt.Fprintln(k.Output, "an earlier run has started a control plane: waiting for it")
	err = WaitAPI(ctx, k.Output)
	if err != nil && !poll.Ended(err) {
		return false, err
	}
	if err == nil {
		err = run(ctx, k.Output, "kubeadm", "init", "--config", config, "--skip-token-print", "--skip-phases="+donePhases)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(k.Output, "making the control plane again: %v\n", err)
		return false, nil
	}
	return err == nil, err
}

// sameConfig reports whether a file for kubeadm has these documents, except for the limits: they depend on how fast the host was.
func sameConfig(earlier []byte, objects []*unstructured.Unstructured) (bool, error) {
	documents, err := encodeDocuments(objects)
	if err != nil {
		return false, err
	}
	wanted, err := withoutLimits(documents)
	if err != nil {
		return false, err
	}
	found, err := withoutLimits(earlier)
	return err == nil && bytes.Equal(found, wanted), nil // the loss of power may have cut the file off
}

// withoutLimits returns the documents of a file for kubeadm without their time limits.
func withoutLimits(file []byte) ([]byte, error) {
	var objects []*unstructured.Unstructured
	for document := range bytes.SplitSeq(file, []byte(documentStart)) {
		object := new(unstructured.Unstructured)
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		delete(object.Object, "timeouts")
		withoutSlower(object.Object)
		objects = append(objects, object)
	}
	return encodeDocuments(objects)
}

// hasEnded reports whether the certificate in a file has ended.
func hasEnded(file string, now time.Time) bool {
	all, err := identity.ReadCAs(file)
	return err == nil && !now.Before(all[0].NotAfter)
}

func allHaveContent(names ...string) (bool, error) {
	for _, name := range names {
		if has, err := hasContent(name); err != nil || !has {
			return false, err
		}
	}
	return true, nil
}
