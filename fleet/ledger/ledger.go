// Package ledger stores a hub's signing state in its own namespace: the key, in a Secret, and the last number of each cluster's
// sequence, in a ConfigMap. A number is stored before it is used, so no number is used twice unless the hub is restored from a
// backup. Clusters notice that by the numbers.
package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/ensure"
)

const (
	// secretName and sequenceName name the objects.
	secretName   = "sealift-fleet-signing"
	sequenceName = "sealift-fleet-sequence"
	// keyField and publicField are cosign's names.
	keyField    = "cosign.key"
	publicField = "cosign.pub"
	// clustersField has the entries of all clusters, as a list: the API server keeps a record of each field of a ConfigMap, which makes
	// thousands of them slow. Older hubs had a field for each cluster. They cannot read this one, so they do not sign concurrently.
	clustersField = "_clusters"
)

// tries is how often a write is tried that another one was faster than.
const tries = 10

// Ledger is the ledger of a hub.
type Ledger struct {
	client    corev1client.CoreV1Interface
	namespace string

	writing sync.Mutex // one write at a time; concurrent requests share the next one
	mu      sync.Mutex
	next    *batch
	known   *corev1.ConfigMap
	entries map[string]Entry // of known
	ahead   ahead
}

// Open returns the ledger of the hub in a namespace. It reads nothing yet.
func Open(hub *kube.Cluster, namespace string) (*Ledger, error) {
	client, err := corev1client.NewForConfigAndClient(hub.Config())
	if err != nil {
		return nil, err
	}
	return &Ledger{client: client, namespace: namespace}, nil
}

// Key returns the hub's key. The first caller makes it.
func (l *Ledger) Key(ctx context.Context) (*signature.Key, error) {
	key, err := l.key(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the key of the hub in Secret %s/%s: %w", l.namespace, secretName, err)
	}
	return key, nil
}

func (l *Ledger) key(ctx context.Context) (*signature.Key, error) {
	secrets := l.client.Secrets(l.namespace)
	found, err := secrets.Get(ctx, secretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if found, err = newSecret(); err != nil {
			return nil, err
		}
		if err := ensure.Namespace(ctx, l.client, l.namespace); err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		_, err = secrets.Create(ctx, found, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another hub was faster
			found, err = secrets.Get(ctx, secretName, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, err
	}
	return signature.ParseKey(found.Data[keyField], nil)
}

func newSecret() (*corev1.Secret, error) {
	key, err := signature.Generate()
	if err != nil {
		return nil, err
	}
	private, err := key.Marshal(nil)
	if err != nil {
		return nil, err
	}
	public, err := key.Public()
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{keyField: private, publicField: public.Marshal()},
	}, nil
}

// Entry is the ledger's entry of a cluster.
type Entry struct {
	// Sequence is the last number that was used, and Time when. Times go back only after the clock was far ahead.
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	// Report is the number of the last report that was read.
	Report int64 `json:"report,omitempty"`
}

// change changes the entries of clusters. It reports whether it did.
type change func(map[string]Entry) (changed bool, err error)

// batch has the changes that one write makes.
type batch struct {
	changes []change
	errs    []error
	done    bool
	err     error
}

// Next uses the next number of a cluster that is greater than floor. It is a reserved one, if available.
func (l *Ledger) Next(ctx context.Context, cluster string, floor int64, now time.Time) (next Entry, err error) {
	now = now.UTC().Truncate(time.Second)
	var found bool
	if next, found = l.ahead.use(cluster, floor, now); found {
		return next, nil
	}
	err = l.change(ctx, func(all map[string]Entry) (bool, error) {
		if next, found = l.ahead.use(cluster, floor, now); found { // the write before this one took it
			return false, nil
		}
		if next, found = l.ahead.take(all, cluster, floor, now); !found {
			next = all[cluster].after(floor, now)
			all[cluster] = next
		}
		return true, nil
	})
	if err != nil {
		return Entry{}, fmt.Errorf("take a sequence number for cluster %s: %w", cluster, err)
	}
	return next, nil
}

// after returns the entry with the next number that is greater than floor.
func (e Entry) after(floor int64, now time.Time) Entry {
	e.Sequence = max(e.Sequence, floor) + 1
	if now.After(e.Time) || e.Time.Sub(now) > seal.ClockSkew { // clusters refuse seals of the future
		e.Time = now
	}
	return e
}

// Expect announces that each of these clusters will need a number. The next write takes these numbers ahead, so that clusters
// that start together share it.
func (l *Ledger) Expect(clusters ...string) { l.ahead.expect(clusters) }

// Discard discards the reserved numbers of a cluster up to this one.
func (l *Ledger) Discard(cluster string, last int64) { l.ahead.discard(cluster, last) }

// Of returns the ledger's entry of a cluster.
func (l *Ledger) Of(ctx context.Context, cluster string) (Entry, error) {
	found, err := l.client.ConfigMaps(l.namespace).Get(ctx, sequenceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, fmt.Errorf("read the sequence numbers of clusters: %w", err)
	}
	all, err := read(found.Data)
	return all[cluster], err
}

// Take records that a report of a cluster was read. It refuses one that is not newer than the last.
func (l *Ledger) Take(ctx context.Context, cluster string, report int64) error {
	return l.change(ctx, func(all map[string]Entry) (bool, error) {
		entry := all[cluster]
		if report <= entry.Report {
			return false, fmt.Errorf("report %d of cluster %s is not newer than report %d, which was already read", report, cluster, entry.Report)
		}
		entry.Report = report
		all[cluster] = entry
		return true, nil
	})
}

// change changes the ledger. Changes that arrive during a write are written together.
func (l *Ledger) change(ctx context.Context, do change) error {
	l.mu.Lock()
	if l.next == nil {
		l.next = new(batch)
	}
	b, mine := l.next, len(l.next.changes)
	b.changes = append(b.changes, do)
	l.mu.Unlock()

	l.writing.Lock()
	defer l.writing.Unlock()
	if !b.done {
		l.mu.Lock()
		l.next = nil // nobody else joins
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute) // others wait for it too
		defer cancel()
		b.err, b.done = l.write(ctx, b), true
	}
	if b.err != nil {
		return b.err
	}
	return b.errs[mine]
}

// write makes the changes of a batch. A change that fails does not stop the others.
func (l *Ledger) write(ctx context.Context, b *batch) error {
	stored := l.client.ConfigMaps(l.namespace)
	for range tries {
		if err := l.load(ctx); err != nil {
			return err
		}
		b.errs = make([]error, len(b.changes))
		changed := false
		for i, do := range b.changes {
			var did bool
			did, b.errs[i] = do(l.entries)
			changed = changed || did
		}
		if !changed {
			return nil
		}
		text, err := list(l.entries)
		if err != nil {
			return err
		}
		next := l.known.DeepCopy()
		next.Data = map[string]string{clustersField: text}
		if next.ResourceVersion == "" {
			l.known, err = stored.Create(ctx, next, metav1.CreateOptions{})
		} else {
			l.known, err = stored.Update(ctx, next, metav1.UpdateOptions{})
		}
		l.ahead.written(err == nil)
		if err == nil {
			return nil
		}
		l.known = nil
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return fmt.Errorf("others keep changing the ConfigMap %s/%s", l.namespace, sequenceName)
}

// load reads the ledger, unless it is known.
func (l *Ledger) load(ctx context.Context) error {
	if l.known != nil {
		return nil
	}
	found, err := l.client.ConfigMaps(l.namespace).Get(ctx, sequenceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: sequenceName, Namespace: l.namespace}}
	} else if err != nil {
		return err
	}
	if l.entries, err = read(found.Data); err == nil {
		l.known = found
	}
	return err
}

// listed is an Entry in its stored form.
type listed struct {
	Cluster string `json:"cluster"`
	Entry
}

func read(data map[string]string) (map[string]Entry, error) {
	text, found := data[clustersField]
	if !found {
		return readFields(data)
	}
	var entries []listed
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("the sequence numbers of clusters in ConfigMap %s: %w", sequenceName, err)
	}
	all := make(map[string]Entry, len(entries)+1)
	for _, e := range entries {
		all[e.Cluster] = e.Entry
	}
	return all, nil
}

// readFields reads what older hubs stored.
func readFields(data map[string]string) (map[string]Entry, error) {
	all := make(map[string]Entry, len(data)+1)
	for cluster, text := range data {
		var e Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return nil, fmt.Errorf("the sequence number of cluster %s in ConfigMap %s: %w", cluster, sequenceName, err)
		}
		all[cluster] = e
	}
	return all, nil
}

func list(all map[string]Entry) (string, error) {
	entries := make([]listed, 0, len(all))
	for _, cluster := range slices.Sorted(maps.Keys(all)) {
		entries = append(entries, listed{cluster, all[cluster]})
	}
	text, err := json.Marshal(entries)
	return string(text), err
}
