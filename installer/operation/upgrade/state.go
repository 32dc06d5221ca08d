package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/rollout"
)

// Stage is the progress of a node.
type Stage string

// The stages of a node, in their order.
const (
	Waiting  Stage = ""
	Prepared Stage = "prepared" // it has all files and images
	Upgraded Stage = "upgraded" // kubeadm has changed it
	Done     Stage = "done"     // it runs the new version, and takes pods
)

// Node is one node in an upgrade.
type Node struct {
	Stage Stage `json:"stage,omitempty"`
	// Error is why the node stopped.
	Error string `json:"error,omitempty"`
	// Away is how long the node took no new pods, Took how long all of its upgrade took without the preparation: seconds.
	Away float64 `json:"away,omitempty"`
	Took float64 `json:"took,omitempty"`
}

// Phase is the progress of an upgrade as a whole.
type Phase string

// The phases, in their order.
const (
	Preparing Phase = "preparing" // files and images on all nodes
	Nodes     Phase = "nodes"     // in sequence
	AddOns    Phase = "add-ons"
	Finished  Phase = "finished"
)

// State is the cluster's record of an upgrade, so that any control plane can resume it.
type State struct {
	Upgrade string `json:"upgrade"` // identifies the bundle and the Installer
	// Whole identifies the upgrade with all its stops. Each stop has a separate State. "" if an older sealift wrote it.
	Whole   string           `json:"whole,omitempty"`
	From    string           `json:"from"` // versions of Kubernetes
	To      string           `json:"to"`
	Leader  string           `json:"leader"` // the node that leads
	Began   time.Time        `json:"began"`
	Ended   time.Time        `json:"ended,omitzero"`
	Phase   Phase            `json:"phase"`
	Error   string           `json:"error,omitempty"` // that ended the last run
	Changes []install.Change `json:"changes"`
	// KeepPods means that pods stay on their nodes: nothing changes that they run on.
	KeepPods bool   `json:"stay,omitempty"`
	Snapshot string `json:"snapshot,omitempty"` // of etcd, taken before the first change: a file on SnapshotOn
	// SnapshotOn is the node that has the file.
	SnapshotOn string           `json:"snapshotOn,omitempty"`
	Nodes      map[string]*Node `json:"nodes"`
	Rollout    rollout.State    `json:"rollout"`
}

// untouched reports that the upgrade has changed no node yet. A later stop has the snapshot of the first one.
func (s State) untouched() bool { return s.Phase == Preparing && s.Snapshot == "" }

// after is the state with which a run begins that has planned s, if last is the state in the cluster. A later stop keeps the snapshot of
// the first one: its leader may be another node, and a current snapshot would be of an intermediate version.
func (s State) after(last State) (State, error) {
	switch {
	case last.Phase == "", last.Phase == Finished, last.untouched() && last.Upgrade != s.Upgrade:
		if last.Whole == s.Whole {
			s.Snapshot, s.SnapshotOn = last.Snapshot, last.SnapshotOn
		}
		return s, nil
	case last.Upgrade != s.Upgrade:
		return last, fmt.Errorf("an upgrade from Kubernetes %s to %s is not finished (at %s); finish it with its own bundle and Installer first",
			last.From, last.To, last.Phase)
	}
	return last, nil
}

// The ConfigMap with the state. Others write that the upgrade is to pause.
const (
	stateName = record.UpgradeConfigMap
	stateKey  = "state.json"
	pausedKey = "paused"
)

// ErrNone means that the cluster was never upgraded by this command.
var ErrNone = errors.New("no upgrade was begun in this cluster")

// store reads and writes the State.
type store struct{ client kubernetes.Interface }

// Read returns the state of the newest upgrade of a cluster, and whether it is to pause. It is ErrNone where there was none.
func Read(ctx context.Context, client kubernetes.Interface) (State, bool, error) {
	return store{client}.read(ctx)
}

func (s store) read(ctx context.Context) (state State, paused bool, err error) {
	found, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, stateName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return state, false, ErrNone
	}
	if err != nil {
		return state, false, fmt.Errorf("the state of the upgrade: %w", err)
	}
	if err := json.Unmarshal([]byte(found.Data[stateKey]), &state); err != nil {
		return state, false, fmt.Errorf("ConfigMap %s/%s: %w; remove it to begin with a new upgrade", metav1.NamespaceSystem, stateName, err)
	}
	return state, found.Data[pausedKey] != "", nil
}

// write replaces the state, and nothing else of the ConfigMap.
func (s store) write(ctx context.Context, state State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{stateKey: string(text)}})
	if err != nil {
		return err
	}
	maps := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	_, err = maps.Patch(ctx, stateName, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: stateName, Labels: map[string]string{"app.kubernetes.io/managed-by": "sealift"}},
			Data:       map[string]string{stateKey: string(text)},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write the state of the upgrade: %w", err)
	}
	return nil
}

// SetPaused reports whether more nodes may begin. Running ones continue. It is ErrNone where no upgrade is under way.
func SetPaused(ctx context.Context, client kubernetes.Interface, paused bool) error {
	state, _, err := Read(ctx, client)
	if err == nil && state.Phase == Finished {
		err = ErrNone
	}
	if err != nil {
		return err
	}
	var value *string
	if paused {
		yes := "true"
		value = &yes
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]*string{pausedKey: value}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Patch(ctx, stateName, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
