package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// RemovedConfig is the ConfigMap in kube-system with the nodes that were removed: name of the node, and a RemovedNode as JSON.
const RemovedConfig = "sealift-removed-nodes"

// maxRemoved bounds the record: a ConfigMap has at most 1 MiB. The oldest entries go first.
const maxRemoved = 4000

// How much earlier than it was signed a certificate of the cluster begins, and how far the clocks of control planes may be apart.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/certificates/signer/signer.go
const (
	backdated  = 5 * time.Minute
	clockApart = 30 * time.Second
)

// RemovedNode is a node that was removed from the cluster. Its old certificate stays invalid, even after a host of that name has
// rejoined.
type RemovedNode struct {
	Removed time.Time `json:"removed"`
	Joined  time.Time `json:"joined,omitzero"` // since then; zero if it has not
}

// Gone reports whether the node was removed, and has not joined again.
func (r RemovedNode) Gone() bool { return !r.Removed.IsZero() && r.Joined.IsZero() }

// Takes reports whether a certificate that became valid at a time may belong to the node's current host.
func (r RemovedNode) Takes(since time.Time) bool {
	return !r.Gone() && !since.Add(backdated+clockApart).Before(r.Joined)
}

// RemovedNodes reads the record, by names of nodes.
func RemovedNodes(ctx context.Context, client kubernetes.Interface) (map[string]RemovedNode, error) {
	config, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, RemovedConfig, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the record of removed nodes: %w", err)
	}
	all := map[string]RemovedNode{}
	for name, text := range config.Data {
		var one RemovedNode
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			return nil, fmt.Errorf("ConfigMap kube-system/%s, key %s: %w", RemovedConfig, name, err)
		}
		all[name] = one
	}
	return all, nil
}

// NoteRemoved records that a node is removed. What approvers know of it is removed, too.
func NoteRemoved(ctx context.Context, client kubernetes.Interface, node string) error {
	if err := guardRemoved(ctx, client); err != nil {
		return err
	}
	all, err := RemovedNodes(ctx, client)
	if err != nil {
		return err
	}
	change := map[string]any{}
	for _, name := range oldest(all, len(all)+1-maxRemoved) {
		change[name] = nil
	}
	change[node] = RemovedNode{Removed: time.Now().UTC().Truncate(time.Second)}.encode()
	if err := patchRemoved(ctx, client, change); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]any{"names." + node: nil, ServedPrefix + node: nil}})
	if err != nil {
		return err
	}
	return patchConfig(ctx, client, ApproverConfig, patch)
}

// NoteJoined records that a host joins with the name of a node, if that one was removed.
func NoteJoined(ctx context.Context, client kubernetes.Interface, node string) error {
	all, err := RemovedNodes(ctx, client)
	if err != nil {
		return err
	}
	one, known := all[node]
	if !known {
		return nil
	}
	one.Joined = time.Now().UTC().Truncate(time.Second)
	return patchRemoved(ctx, client, map[string]any{node: one.encode()})
}

func (r RemovedNode) encode() string {
	text, _ := json.Marshal(r) // two times: cannot fail
	return string(text)
}

func patchRemoved(ctx context.Context, client kubernetes.Interface, change map[string]any) error {
	patch, err := json.Marshal(map[string]any{"data": change})
	if err != nil {
		return err
	}
	return patchConfig(ctx, client, RemovedConfig, patch)
}

// oldest returns the names of the n nodes that were removed first.
func oldest(all map[string]RemovedNode, n int) []string {
	if n <= 0 {
		return nil
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := all[a].Removed.Compare(all[b].Removed); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return names[:min(n, len(names))]
}

// createConfig makes an empty ConfigMap in kube-system, if there is none.
func createConfig(ctx context.Context, client kubernetes.Interface, name string) error {
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, own, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
