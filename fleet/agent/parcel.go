package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube/ensure"
)

// parcelField is the field that records parcels, beside the marks of works. No work has a capital letter in its name.
const parcelField = "PARCEL"

// Carried configures how parcels are applied on a cluster without a connection to its hub. Local, Cluster, Keys, Key, Content
// and Report are required.
type Carried struct {
	Local   *rest.Config
	Cluster string
	// Server is the address of the hub that the cluster joined.
	Server string
	// Keys are the hub's. Key is the cluster's own, which signs reports.
	Keys []signature.PublicKey
	Key  *signature.Key
	// Content is the folder that keeps the content sent by the hub.
	Content string
	// Images brings the images of parcels to the nodes, before their works are applied. Nil: they are already there.
	Images Images
	// Report is the file to write.
	Report string
	// MaxAge is the maximum age of a parcel. Default DefaultMaxAge.
	MaxAge time.Duration
	// Wait is how long to wait until all works are applied and rolled out. Look is how often to look. Default 1 s.
	Wait, Look time.Duration
	// RemoveTime is as in Options.
	RemoveTime time.Duration
	Log        *slog.Logger
}

// Applied reports what Apply did, or would do.
type Applied struct {
	Parcel  int64    `json:"parcel,omitempty"`
	Works   []string `json:"works,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Stuck are works that could not be removed, each with the reason. They do not stop other works. The same parcel, or a later one,
	// retries them.
	Stuck map[string]string `json:"stuck,omitempty"`
	// Releases are Helm releases, by namespace and name of their HelmReleaseProxies on the hub.
	Releases []string `json:"releases,omitempty"`
	// Content counts the bytes of files that the parcel brought, and Had those that were there.
	Content int64 `json:"contentBytes"`
	Had     int64 `json:"hadBytes"`
	// Waiting are works and releases that were not rolled out when the wait was over.
	Waiting []string `json:"waiting,omitempty"`
	Report  string   `json:"report,omitempty"`
}

// carrier applies one parcel.
type carrier struct {
	Carried
	*agent
	key    signature.PublicKey // that signed the parcel
	last   parcel.Last
	status map[string]ocm.ManifestWorkStatus
	gone   []string

	releases []parcel.ReleaseReport
}

// Apply applies the parcel in a file, and writes a report. Without a file it only checks what was applied, and reports.
// Everything is checked before anything changes: every byte of the parcel, and the order of each work. Killed at any moment, it
// resumes when it is called again. One at a time works with a content folder.
func Apply(ctx context.Context, c Carried, file string, plan bool) (out Applied, err error) {
	if len(c.Keys) == 0 {
		return out, errors.New("the cluster joined a hub that signs nothing, and parcels need a signature; join again without --unsigned")
	}
	c.MaxAge, c.Look = cmp.Or(c.MaxAge, DefaultMaxAge), cmp.Or(c.Look, time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	o := Options{Local: c.Local, Cluster: c.Cluster, Keys: c.Keys, RemoveTime: c.RemoveTime, Log: c.Log}
	w := &carrier{Carried: c, key: c.Keys[0], status: make(map[string]ocm.ManifestWorkStatus)}
	if w.agent, err = connectLocal(o); err != nil {
		return out, fmt.Errorf("connect to cluster %s: %w", c.Cluster, err)
	}
	w.hubHash = hashOf(c.Server)
	if !plan {
		release, err := lockContent(c.Content)
		if err != nil {
			return out, err
		}
		defer release()
	}
	if file == "" {
		return w.reportOnly(ctx, plan)
	}
	a, p, err := parcel.ReadArchive(file, c.Keys)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	works, deleted, marks, err := w.check(ctx, a, p)
	if err != nil {
		return out, err
	}
	out = Applied{Parcel: p.Sequence, Works: namesOf(works), Removed: namesOf(deleted), Releases: releaseNames(p)}
	out.Content, out.Had = sizes(a)
	images, err := c.imagesOf(ctx, a)
	if err != nil || plan {
		return out, err
	}
	// from here on, the cluster has seen the parcel
	if err := w.remember(ctx, func(m seal.Memory, last *parcel.Last) {
		maps.Copy(m, marks)
		seal.Policy{MaxAge: w.Carried.MaxAge}.Forget(m, p.Time)
		*last = parcel.Last{Sequence: p.Sequence, Digest: a.Digest, Time: time.Now().UTC().Truncate(time.Second), Report: last.Report + 1}
	}); err != nil {
		return out, err
	}
	if err := w.prepare(ctx); err != nil {
		return out, err
	}
	if out.Stuck, err = w.removeAll(ctx, deleted); err != nil {
		return out, err
	}
	out.Removed = slices.DeleteFunc(out.Removed, func(name string) bool { return out.Stuck[name] != "" })
	w.gone = out.Removed
	if err := c.keep(ctx, a, images); err != nil {
		return out, err
	}
	if err := w.applyAndReport(ctx, a, p, works, &out); err != nil {
		return out, err
	}
	if len(out.Stuck) > 0 {
		return out, nil
	}
	if err := w.remember(ctx, func(_ seal.Memory, last *parcel.Last) { last.Done = true }); err != nil {
		return out, err
	}
	return out, dropOthers(c.Content)
}

// applyAndReport applies the works and releases of a parcel whose content is here.
func (w *carrier) applyAndReport(ctx context.Context, a *bundle.Archive, p parcel.Parcel, works []*ocm.ManifestWork, out *Applied) (err error) {
	if out.Waiting, err = w.applyAll(ctx, works); err != nil {
		return err
	}
	late, err := w.applyReleases(ctx, a, p)
	if err != nil {
		return err
	}
	out.Waiting = append(out.Waiting, late...)
	out.Report, err = w.report(ctx, works)
	return err
}

func namesOf(works []*ocm.ManifestWork) (names []string) {
	for _, w := range works {
		names = append(names, w.Name)
	}
	return names
}

// check refuses a parcel before anything changes. It returns its works with the content that was signed, and the marks to
// remember.
func (w *carrier) check(ctx context.Context, a *bundle.Archive, p parcel.Parcel) (works, deleted []*ocm.ManifestWork, marks seal.Memory, err error) {
	fail := func(err error) ([]*ocm.ManifestWork, []*ocm.ManifestWork, seal.Memory, error) {
		return nil, nil, nil, err
	}
	for _, key := range w.Carried.Keys {
		if trust, err := a.VerifySignature(key); err == nil && trust.Signer != "" {
			w.key = key
		}
	}
	memory, err := w.recall(ctx)
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	if err := p.Check(w.Carried.Cluster, a.Digest, w.last, w.Carried.MaxAge, now); err != nil {
		return fail(err)
	}
	policy := seal.Policy{Cluster: w.Carried.Cluster, Keys: w.Carried.Keys} // the parcel's age counts, not that of its works
	marks = make(seal.Memory)
	for _, one := range p.Works {
		work, _, err := w.origin(one)
		if err != nil {
			return fail(err)
		}
		if one.Deleted {
			deleted = append(deleted, work)
			continue
		}
		s, err := seal.Read(one.Seal)
		if err == nil {
			err = s.Life(false)
		}
		if err != nil {
			return fail(fmt.Errorf("work %s: %w", one.Name, err))
		}
		mark, _, err := policy.Order(s, memory, now)
		if err != nil {
			return fail(fmt.Errorf("work %s: %w", one.Name, err))
		}
		marks[one.Name] = mark
		works = append(works, work)
	}
	left, err := w.left(p, memory)
	if err != nil {
		return fail(err)
	}
	deleted = append(deleted, left...)
	if err := withContent(a, w.Content); err != nil {
		return fail(err)
	}
	if err := a.Verify(ctx); err != nil {
		return fail(fmt.Errorf("the parcel or the content that it requires is damaged: %w; copy it again, or make one without --since", err))
	}
	return works, deleted, marks, nil
}

// origin checks who signed a work of a parcel, and returns it with the content that was signed.
func (w *carrier) origin(one parcel.Work) (*ocm.ManifestWork, signature.PublicKey, error) {
	_, key, spec, err := seal.Policy{Cluster: w.Carried.Cluster, Keys: w.Carried.Keys}.Origin(one.Name, one.Seal, one.Spec)
	if err != nil {
		return nil, key, fmt.Errorf("work %s: %w", one.Name, err)
	}
	return &ocm.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: one.Name, Annotations: map[string]string{seal.Annotation: one.Seal}}, Spec: spec}, key, nil
}

// recall reads the cluster's record of the key that signed the parcel.
func (w *carrier) recall(ctx context.Context) (memory seal.Memory, err error) {
	w.marks.mu.Lock()
	defer w.marks.mu.Unlock()
	name, err := w.marks.nameFor(ctx, w.key)
	if err != nil {
		return nil, err
	}
	had, err := w.marks.read(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read the record of parcels: %w", err)
	}
	if had.Data[parcelField] == "" {
		w.last = parcel.Last{}
		if w.last.Report, err = w.marks.lastReport(ctx); err != nil {
			return nil, err
		}
	} else if w.last, err = readLast(had); err != nil {
		return nil, err
	}
	return seal.ReadMemory(had.Data)
}

func readLast(m *corev1.ConfigMap) (last parcel.Last, err error) {
	if text := m.Data[parcelField]; text != "" {
		err = json.Unmarshal([]byte(text), &last)
	}
	if err != nil {
		return last, fmt.Errorf("read the record of parcels in ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return last, nil
}

// lastReport returns the number of the last report under any key of the hub: numbering continues when the hub has a new key.
func (m *marks) lastReport(ctx context.Context) (number int64, err error) {
	list, err := m.client.ConfigMaps(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("read the record of parcels: %w", err)
	}
	for i := range list.Items {
		if !strings.HasPrefix(list.Items[i].Name, marksName) {
			continue
		}
		last, err := readLast(&list.Items[i])
		if err != nil {
			return 0, err
		}
		number = max(number, last.Report)
	}
	return number, nil
}

// remember updates the cluster's record.
func (w *carrier) remember(ctx context.Context, change func(seal.Memory, *parcel.Last)) error {
	if err := ensure.Namespace(ctx, w.reader.CoreV1(), Namespace); err != nil {
		return err
	}
	w.marks.mu.Lock()
	defer w.marks.mu.Unlock()
	name, err := w.marks.nameFor(ctx, w.key)
	if err != nil {
		return err
	}
	return w.marks.change(ctx, name, func(m seal.Memory, data map[string]string) error {
		change(m, &w.last)
		text, err := json.Marshal(w.last)
		data[parcelField] = string(text)
		return err
	})
}

// applyAll applies works until all are applied and rolled out, or the wait is over. It returns those that are not.
func (w *carrier) applyAll(ctx context.Context, works []*ocm.ManifestWork) (waiting []string, err error) {
	known := make(map[string][]manifest)
	bounded, cancel := context.WithTimeout(ctx, w.Wait)
	defer cancel()
	err = poll.Until(bounded, w.Carried.Look, nil, func(context.Context) (bool, error) {
		waiting = nil
		for _, work := range works {
			manifests := known[work.Name]
			if manifests == nil || slices.ContainsFunc(manifests, func(m manifest) bool { return m.err != nil }) {
				if manifests, err = w.applyAndRecord(ctx, work); err != nil {
					waiting = nil
					return true, err
				}
				known[work.Name] = manifests
			}
			if !w.checkStatus(ctx, work, manifests) {
				waiting = append(waiting, work.Name)
			}
		}
		return len(waiting) == 0, ctx.Err()
	})
	if poll.Ended(err) {
		err = ctx.Err()
	}
	return waiting, err
}

// checkStatus notes the status of a work, and returns whether it is applied and rolled out.
func (w *carrier) checkStatus(ctx context.Context, work *ocm.ManifestWork, manifests []manifest) bool {
	work.Status = w.status[work.Name]
	w.agent.status(ctx, work, manifests)
	w.verified(work)
	w.status[work.Name] = work.Status
	for _, kind := range []string{"Applied", "Available"} {
		if !meta.IsStatusConditionTrue(work.Status.Conditions, kind) {
			return false
		}
	}
	return !slices.ContainsFunc(work.Status.ResourceStatus.Manifests, unfinished)
}

// Place returns the file that a path means: the path itself, or if it is a folder, the cluster's file in it.
func Place(path, cluster, suffix string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return strings.TrimSuffix(path, "/") + "/" + cluster + suffix
	}
	return path
}
