package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/jq"
)

// view is a jq filter that bindings share, or none.
type view struct{ filter *jq.Filter }

func (v view) same(f *jq.Filter) bool {
	if v.filter == nil || f == nil {
		return v.filter == f
	}
	return v.filter.String() == f.String()
}

// name is the key of an object in its source.
type name struct{ namespace, name string }

// item is an object in its kept form.
type item struct {
	name
	sum     uint64   // of the whole JSON
	full    []byte   // the JSON, if a binding needs it
	results [][]byte // of the views, nil for one without a filter
}

// GetObjectMeta lets client-go find the name of the item.
func (i *item) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.namespace, Name: i.name.name}
}

var seed = maphash.MakeSeed()

// Transformer converts objects to items as they arrive, so that a long list never exists as a whole.
func (o *source) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil // an item already, or a tombstone
		}
		whole, err := u.MarshalJSON()
		if err != nil {
			return nil, err
		}
		whole = bytes.TrimSuffix(whole, []byte("\n"))
		i := &item{name: name{u.GetNamespace(), u.GetName()}, sum: maphash.Bytes(seed, whole)}
		o.mu.Lock()
		views, full, subs := slices.Clone(o.views), o.full, slices.Clone(o.subs)
		o.started = true // a binding that needs more is too late
		o.mu.Unlock()
		if full {
			i.full = slices.Clip(whole)
		}
		for at, v := range views {
			begin := time.Now()
			i.results = append(i.results, o.watcher.result(o, v.filter, whole))
			took := time.Since(begin)
			for _, t := range subs {
				if t.view == at && v.filter != nil && t.sub.meter != nil {
					t.sub.meter.Filtered(u.GetKind(), took)
				}
			}
		}
		return i, nil
	}
}

// handled records how long an event took since its arrival. o.mu is held.
func (o *source) handled(came time.Time) {
	took := time.Since(came)
	for _, t := range o.subs {
		if t.sub.meter != nil {
			t.sub.meter.Handled(o.kind, took)
		}
	}
}

// result runs a filter on an object. A failing filter returns null, and the failure is logged.
func (w *Watcher) result(o *source, filter *jq.Filter, whole []byte) []byte {
	if filter == nil {
		return nil
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(whole))
	dec.UseNumber()
	err := dec.Decode(&tree)
	var value any
	if err == nil {
		value, err = filter.Apply(w.ctx, tree)
	}
	result, err2 := json.Marshal(value)
	if err = errors.Join(err, err2); err != nil {
		w.log.ErrorContext(w.ctx, "the jq filter of a binding failed; its result is null", "objects", o.key.String(), "error", err)
		return []byte("null")
	}
	return result
}

// object is a subscription's view of an item. o.mu is held.
func (o *source) object(i *item, view int, s *Subscription) binding.Object {
	out := binding.Object{Kind: o.kind, Namespace: i.namespace, Name: i.name.name, Result: i.results[view]}
	if s.binding.KeepFull {
		out.Full = i.full
	}
	return out
}

// itemOf transforms the reflector's objects. New views are filled.
func (o *source) itemOf(obj any) (*item, error) {
	made, err := o.Transformer()(obj)
	if err != nil {
		return nil, err
	}
	i, ok := made.(*item)
	if !ok {
		return nil, fmt.Errorf("watch %s: a %T is not an object", o.key, obj)
	}
	return i, nil
}

// complete fills the views that joined since the item was made. They join only where items are whole. o.mu is held.
func (o *source) complete(i *item) {
	for at := len(i.results); at < len(o.views); at++ {
		i.results = append(i.results, o.watcher.result(o, o.views[at].filter, i.full))
	}
}

// Add, Update, Delete and Replace are called by the reflector, one at a time.
func (o *source) Add(obj any) error { return o.change(obj, o.put) }

// Update is Add: the store knows itself whether an object is new.
func (o *source) Update(obj any) error { return o.Add(obj) }

// Delete drops an object. The event shows its last state.
func (o *source) Delete(obj any) error {
	return o.change(obj, func(i *item) {
		o.complete(i)
		delete(o.items, i.name)
		o.dispatch(binding.Deleted, i)
	})
}

// change makes an item of an object and calls do with it. o.mu is held then.
func (o *source) change(obj any, do func(*item)) error {
	came := time.Now()
	i, err := o.itemOf(obj)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	do(i)
	o.handled(came)
	return nil
}

// Replace takes over a whole list, the first or one after a broken watch. What differs from before is an event.
func (o *source) Replace(list []any, _ string) error {
	items := make([]*item, len(list))
	for at, obj := range list {
		i, err := o.itemOf(obj)
		if err != nil {
			return err
		}
		items[at] = i
	}
	o.mu.Lock()
	now := make(map[name]bool, len(items))
	for _, i := range items {
		now[i.name] = true
		o.put(i)
	}
	for _, old := range o.items {
		if !now[old.name] {
			delete(o.items, old.name)
			o.dispatch(binding.Deleted, old)
		}
	}
	first := !o.here
	o.here, o.started = true, true
	subs := slices.Clone(o.subs)
	o.mu.Unlock()
	if first {
		for _, t := range subs {
			t.sub.arrived(o.key, true)
		}
	}
	return nil
}

// Resync does nothing.
func (*source) Resync() error { return nil }

// put stores an object and returns the subscriptions that it is news for. o.mu is held.
func (o *source) put(i *item) {
	o.complete(i)
	old := o.items[i.name]
	o.items[i.name] = i
	if old == nil {
		o.dispatch(binding.Added, i)
		return
	}
	if old.sum == i.sum {
		return
	}
	for _, t := range o.subs {
		// With a filter, only a change of its result counts (S-8).
		if o.views[t.view].filter == nil || !bytes.Equal(old.results[t.view], i.results[t.view]) {
			t.sub.push(o, Change{binding.Modified, o.object(i, t.view, t.sub)})
		}
	}
}

// dispatch pushes an event to all affected views. The first list is not an event for those who read it as a whole.
func (o *source) dispatch(event binding.Event, i *item) {
	for _, t := range o.subs {
		if o.here || !t.initial {
			t.sub.push(o, Change{event, o.object(i, t.view, t.sub)})
		}
	}
}
