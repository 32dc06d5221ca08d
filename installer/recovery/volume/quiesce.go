package volume

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/filelock"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/tail"
)

// The annotations of pods with Velero's hooks: PHASE.hook.backup.velero.io/FIELD. Those of "pre" may lack the phase.
// Source: https://velero.io/docs/v1.17/backup-hooks/
const (
	hookAnnotation = "hook.backup.velero.io/"
	preHook        = "pre."
	postHook       = "post."
)

// hookTime is how long a hook may take that names no timeout.
const hookTime = 30 * time.Second

// wakeTime is how long all hooks together may take that resume pods. Their own timeouts are annotations of pods.
const wakeTime = 10 * time.Minute

// Executor runs a program in a container of this host. A container that no longer runs is fs.ErrNotExist.
type Executor func(ctx context.Context, container string, command []string, output io.Writer) error

// hook is a program in a container of a pod.
type hook struct {
	Pod       string        `json:"pod"` // namespace/name
	Container string        `json:"container"`
	ID        string        `json:"id"` // of the container in containerd
	Command   []string      `json:"command"`
	Timeout   time.Duration `json:"timeout"`            // ns
	Continue  bool          `json:"continue,omitempty"` // a failure is reported and stops nothing
}

// hooks are those of a pod: before its volumes are read, and after. Either may be nil.
type hooks struct{ before, after *hook }

// hooksOf reads the hooks of a pod. A pod that does not run has none.
func hooksOf(pod corev1.Pod) (h hooks, err error) {
	if pod.Status.Phase != corev1.PodRunning {
		return h, nil
	}
	if h.before, err = hookOf(pod, preHook); err == nil && h.before == nil {
		h.before, err = hookOf(pod, "")
	}
	if err == nil {
		h.after, err = hookOf(pod, postHook)
	}
	return h, err
}

func hookOf(pod corev1.Pod, phase string) (*hook, error) {
	field := func(name string) string { return pod.Annotations[phase+hookAnnotation+name] }
	line := field("command")
	if line == "" {
		return nil, nil //nolint:nilnil // it has none
	}
	h := &hook{Pod: pod.Namespace + "/" + pod.Name, Container: cmp.Or(field("container"), pod.Spec.Containers[0].Name), Command: []string{line}, Timeout: hookTime, Continue: field("on-error") == "Continue"}
	var list []string
	if strings.HasPrefix(line, "[") && json.Unmarshal([]byte(line), &list) == nil && len(list) > 0 {
		h.Command = list
	}
	if timeout := field("timeout"); timeout != "" {
		d, err := time.ParseDuration(timeout)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("pod %s: the annotation %s is %q; it must be a time such as 30s", h.Pod, phase+hookAnnotation+"timeout", timeout)
		}
		h.Timeout = d
	}
	at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == h.Container })
	if at < 0 {
		return nil, fmt.Errorf("pod %s: the annotation %s names container %q, which the pod does not have", h.Pod, phase+hookAnnotation+"container", h.Container)
	}
	_, h.ID, _ = strings.Cut(pod.Status.ContainerStatuses[at].ContainerID, "://")
	return h, nil
}

// same reports whether two hooks do the same in the same container.
func (h hook) same(o hook) bool { return h.ID == o.ID && slices.Equal(h.Command, o.Command) }

// run runs a hook. ctx may have ended: what quiesces a pod must not stay.
func (h hook) run(ctx context.Context, execute Executor, output io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("it took longer than %v", h.Timeout))
	defer cancel()
	var said tail.Buffer
	err := execute(ctx, h.ID, h.Command, &said)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("the hook of pod %s in container %s, %q: %w: %s", h.Pod, h.Container, strings.Join(h.Command, " "), err, said.String())
	if h.Continue {
		fmt.Fprintln(output, err)
		return nil
	}
	return err
}

// Quiescence quiesces pods, and remembers in a file which ones, so that one that was killed is made up for.
type Quiescence struct {
	File    string
	Execute Executor
	Output  io.Writer // of hooks that fail and may
}

// ErrBusy means that another process quiesces pods of this host.
var ErrBusy = errors.New("another 'sealift snapshot save' reads volumes of this host; wait until it has ended")

// ErrAsleep means that hooks which resume pods have failed. What was read of volumes before is whole.
var ErrAsleep = errors.New("pods stay quiesced until the next save resumes them")

// lock acquires the lock of the file, which ends with the process.
func (q Quiescence) lock() (release func(), err error) {
	f, err := files.Append(q.File + ".lock")
	if err != nil {
		return nil, err
	}
	if err := filelock.TryLock(f); err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			err = ErrBusy
		}
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// During runs the hooks before and after work on the volumes of a group. Those after it run however the work ends. Their error is ErrAsleep.
func (q Quiescence) During(ctx context.Context, g Group, work func() error) (err error) {
	if len(g.hooks) == 0 {
		return work()
	}
	release, err := q.lock()
	if err != nil {
		return err
	}
	defer release()
	var wakes, others []hook // others could not be resumed before
	for _, h := range g.hooks {
		if h.after != nil {
			wakes = append(wakes, *h.after)
		}
	}
	if len(wakes) > 0 {
		left, err := q.remembered()
		if err != nil {
			return err
		}
		others = slices.DeleteFunc(left, func(h hook) bool { return slices.ContainsFunc(wakes, h.same) })
		if err := q.remember(slices.Concat(wakes, others)); err != nil {
			return err
		}
	}
	defer func() {
		if len(wakes) > 0 {
			err = errors.Join(err, q.wake(context.WithoutCancel(ctx), wakes, others))
		}
	}()
	for _, h := range g.hooks {
		if h.before == nil {
			continue
		}
		if err := h.before.run(ctx, q.Execute, q.Output); err != nil {
			return err
		}
	}
	return work()
}

func (q Quiescence) remember(wakes []hook) error {
	text, err := json.Marshal(wakes)
	if err != nil {
		return err
	}
	return files.WriteMode(q.File, 0o600, text)
}

// remembered are the hooks that are still to run.
func (q Quiescence) remembered() (wakes []hook, err error) {
	text, err := regularfile.ReadFile(q.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &wakes)
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of quiesced pods in %s: %w", q.File, err)
	}
	return wakes, nil
}

// Wake runs the hooks that are to run after volumes were read, and that a process which was killed has left. It leaves those of a
// working one.
func (q Quiescence) Wake(ctx context.Context) error {
	if _, err := os.Stat(q.File); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	release, err := q.lock()
	if errors.Is(err, ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	wakes, err := q.remembered()
	if err != nil {
		return err
	}
	return q.wake(ctx, wakes, nil)
}

// wake runs hooks, and remembers those that fail, and others.
func (q Quiescence) wake(ctx context.Context, wakes, others []hook) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wakeTime, fmt.Errorf("the hooks that resume pods took longer than %v", wakeTime))
	defer cancel()
	var asleep []hook
	for _, h := range wakes {
		failed := h.run(ctx, q.Execute, q.Output)
		if failed == nil || errors.Is(failed, fs.ErrNotExist) { // a container that was started again is not quiesced
			continue
		}
		err, asleep = errors.Join(err, failed), append(asleep, h)
	}
	if len(asleep) > 0 {
		err = fmt.Errorf("%w: %w", ErrAsleep, err)
	}
	if asleep = append(asleep, others...); len(asleep) > 0 {
		return errors.Join(err, q.remember(asleep))
	}
	return files.Remove(q.File)
}
