package watch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/sealift/sealift/operator/binding"
)

// Change is an event of a binding.
type Change struct {
	Event  binding.Event
	Object binding.Object
}

// held is an event that waits for Release.
type held struct {
	Change

	from *source
}

// Subscription has the objects that one binding watches.
type Subscription struct {
	watcher *Watcher
	binding binding.Kubernetes
	on      func(Change)
	meter   Meter // or nil

	tried, synced chan struct{} // closed when each list of the start was tried, and when all are here

	// No method of a source is called with mu held: sources call push with their own lock held.
	mu       sync.Mutex
	sources  map[key]*source
	missing  map[key]bool // missing lists of the start
	untried  map[key]bool
	released bool
	idle     bool // nobody will ask for the held objects
	stopped  bool
	held     []held
	end      context.CancelFunc
	ended    <-chan struct{} // closed by Stop, and at the end of the watcher

	namespaces *Subscription // those that the binding selects by labels, or nil; written once, by Subscribe
	begun      bool          // all lists of the start are known
}

// Tried is closed when every list of the start has arrived or failed.
func (s *Subscription) Tried() <-chan struct{} { return s.tried }

// Synced is closed when every list of the start has arrived.
func (s *Subscription) Synced() <-chan struct{} { return s.synced }

// Ended is closed when the subscription was stopped.
func (s *Subscription) Ended() <-chan struct{} { return s.ended }

// Idle reports whether events before Release are dropped instead of kept. A standby, which may wait for months, reads snapshots
// and needs no events: when it leads, its hooks begin with everything that exists then.
func (s *Subscription) Idle(idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle = idle; idle {
		s.held = nil
	}
}

// Release lets events through: first those since the lists, then each as it arrives.
func (s *Subscription) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	for _, one := range s.held {
		s.on(one.Change)
	}
	s.held = nil
}

// Objects returns what exists now, sorted by namespace and name (S-9).
func (s *Subscription) Objects() []binding.Object { return s.objects(false) }

// Show is Objects for the synchronization of a hook. Events that wait for Release and are part of its result are dropped: the hook
// would get them after it, with older states.
func (s *Subscription) Show() []binding.Object { return s.objects(true) }

func (s *Subscription) objects(shown bool) (all []binding.Object) {
	for _, source := range s.current() {
		all = append(all, source.objects(s, shown)...)
	}
	slices.SortFunc(all, func(a, b binding.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Size returns how many objects there are, and the bytes of their JSON and of their filter results.
func (s *Subscription) Size() (objects, bytes int) {
	for _, o := range s.Objects() {
		objects++
		bytes += len(o.Full) + len(o.Result)
	}
	return objects, bytes
}

// Stop ends the subscription. Lists that nobody else needs are dropped.
func (s *Subscription) Stop() {
	s.end()
	if s.namespaces != nil {
		s.namespaces.Stop()
	}
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	for _, source := range s.current() {
		source.detach(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sources)
}

func (s *Subscription) current() []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*source, 0, len(s.sources))
	for _, o := range s.sources {
		all = append(all, o)
	}
	return all
}

// keys are the lists that the objects of one namespace take, or of all if it is "".
func (s *Subscription) keys(namespace string) (all []key) {
	one := key{s.binding.APIVersion, strings.ToLower(s.binding.Kind), namespace, s.binding.Labels, s.binding.Fields}
	if len(s.binding.Names) == 0 {
		return []key{one}
	}
	for _, name := range s.binding.Names {
		one.fields = strings.TrimPrefix(s.binding.Fields+","+fields.OneTermEqualSelector("metadata.name", name).String(), ",")
		all = append(all, one)
	}
	return all
}

// add watches a namespace. The objects of a list that starts later are events.
func (s *Subscription) add(namespace string, initial bool) {
	keys := s.keys(namespace)
	s.mu.Lock()
	for _, k := range keys {
		if initial {
			s.missing[k], s.untried[k] = true, true
		}
	}
	s.mu.Unlock()
	for _, k := range keys {
		source := s.watcher.attach(k, s, initial)
		s.mu.Lock()
		stopped := s.stopped
		if !stopped {
			s.sources[k] = source
		}
		s.mu.Unlock()
		if stopped {
			source.detach(s)
		}
	}
}

// remove forgets a namespace that the binding no longer selects. Its objects leave the snapshot without events.
func (s *Subscription) remove(namespace string) {
	for _, k := range s.keys(namespace) {
		s.mu.Lock()
		source := s.sources[k]
		delete(s.sources, k)
		delete(s.missing, k)
		delete(s.untried, k)
		s.mu.Unlock()
		if source != nil {
			source.detach(s)
		}
	}
	s.settle()
}

// followNamespaces watches the namespaces that the binding selects by label, as they are created and deleted.
func (s *Subscription) followNamespaces(changed <-chan struct{}) {
	select {
	case <-s.namespaces.Tried():
	case <-s.ended:
		return
	}
	select {
	case <-s.namespaces.Synced():
	default: // the namespaces cannot be listed, so nothing in them was either
		s.mu.Lock()
		once(s.tried)
		s.mu.Unlock()
	}
	select {
	case <-s.namespaces.Synced():
	case <-s.ended:
		return
	}
	known := map[string]bool{}
	for initial := true; ; initial = false {
		now := map[string]bool{}
		for _, o := range s.namespaces.Objects() {
			if now[o.Name] = true; !known[o.Name] && !slices.Contains(s.binding.Namespaces, o.Name) {
				s.add(o.Name, initial)
			}
		}
		for name := range known {
			if !now[name] && !slices.Contains(s.binding.Namespaces, name) {
				s.remove(name)
			}
		}
		if known = now; initial {
			s.begin()
			s.namespaces.Release()
		}
		select {
		case <-changed:
		case <-s.ended:
			return
		}
	}
}

// arrived notes that a list of the start is here, or at least was tried.
func (s *Subscription) arrived(k key, here bool) {
	s.mu.Lock()
	delete(s.untried, k)
	if here {
		delete(s.missing, k)
	}
	s.mu.Unlock()
	s.settle()
}

// begin notes that all lists of the start are known.
func (s *Subscription) begin() {
	s.mu.Lock()
	s.begun = true
	s.mu.Unlock()
	s.settle()
}

// settle closes the channels that are due.
func (s *Subscription) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		return
	}
	if len(s.missing) == 0 {
		once(s.synced) // before tried: waiters for that check whether this is closed
	}
	if len(s.untried) == 0 {
		once(s.tried)
	}
}

// once closes a channel that may be closed already.
func once(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// shown drops the events of a source that wait for Release. The lock of the source is held, so no event arrives in the meantime.
func (s *Subscription) shown(from *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = slices.DeleteFunc(s.held, func(one held) bool { return one.from == from })
}

// push delivers an event that the binding asks for, or keeps it until Release.
func (s *Subscription) push(from *source, c Change) {
	if !slices.Contains(s.binding.Events, c.Event) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.released:
		s.on(c)
	case !s.idle:
		s.held = append(s.held, held{c, from})
	}
}
