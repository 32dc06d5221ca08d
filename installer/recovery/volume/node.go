package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
)

// deletedPoll is the time between two checks whether a PersistentVolume is gone.
const deletedPoll = 200 * time.Millisecond

// Renamed assigns PersistentVolumes to a node that replaced another one with another name. The node of a PersistentVolume cannot be
// changed, so each is deleted and recreated, for the same claim; its data stays. Deleted objects are kept in a folder in the meantime,
// so that the same call resumes after an interruption.
func Renamed(ctx context.Context, client kubernetes.Interface, names []string, from, to, memory string, output io.Writer) error {
	for _, name := range names {
		if err := renamed(ctx, client, name, from, to, filepath.Join(memory, name+".json"), output); err != nil {
			return fmt.Errorf("assign volume %s to node %s: %w", name, to, err)
		}
	}
	return nil
}

func renamed(ctx context.Context, client kubernetes.Interface, name, from, to, memory string, output io.Writer) error {
	all := client.CoreV1().PersistentVolumes()
	live, err := all.Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil {
		if !onNode(live, from, to) {
			return files.Remove(memory)
		}
		text, err := json.Marshal(live)
		if err != nil {
			return err
		}
		if err := errors.Join(files.MkdirAll(filepath.Dir(memory), 0o700), files.WriteMode(memory, 0o600, text)); err != nil {
			return err
		}
		if err := all.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &live.UID}}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		// The finalizer would keep it for as long as its claim exists. A controller restores it on a volume that is not being deleted.
		free := fmt.Appendf(nil, `{"metadata":{"uid":%q,"finalizers":null}}`, live.UID)
		if _, err := all.Patch(ctx, name, types.MergePatchType, free, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		err = poll.Until(ctx, deletedPoll, nil, func(ctx context.Context) (bool, error) {
			_, err := all.Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return true, nil
			case err == nil:
				err = fmt.Errorf("volume %s still exists; see its finalizers", name)
			}
			return false, poll.NotYet(err)
		})
		if err != nil {
			return err
		}
	}
	text, err := regularfile.ReadFile(memory)
	if errors.Is(err, fs.ErrNotExist) { // it was deleted before
		return nil
	}
	var pv corev1.PersistentVolume
	if err == nil {
		err = json.Unmarshal(text, &pv)
	}
	if err != nil {
		return err
	}
	onNode(&pv, from, to)
	pv.ObjectMeta = metav1.ObjectMeta{Name: pv.Name, Labels: pv.Labels, Annotations: pv.Annotations, Finalizers: pv.Finalizers}
	pv.Status = corev1.PersistentVolumeStatus{}
	if pv.Spec.ClaimRef != nil {
		pv.Spec.ClaimRef.ResourceVersion = ""
	}
	if _, err := all.Create(ctx, &pv, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	fmt.Fprintf(output, "volume %s is one of node %s now\n", name, to)
	return files.Remove(memory)
}

// onNode assigns a volume to another node, in memory. It reports whether it was one of the first.
func onNode(pv *corev1.PersistentVolume, from, to string) (changed bool) {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return false
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, one := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			for n, value := range one.Values {
				if value == from {
					one.Values[n], changed = to, true
				}
			}
		}
	}
	return changed
}
