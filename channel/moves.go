package channel

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/kube"
)

// Move is an object that changes hands when a plan is applied.
type Move struct {
	Object kube.Ref `json:"object"`
	From   string   `json:"from"` // add-ons
	To     string   `json:"to"`
}

func (m Move) String() string {
	return fmt.Sprintf("%s moves from add-on %q to %q", m.Object, m.From, m.To)
}

// Moves says which objects a plan moves from one add-on to another. It reads the manifests of the add-ons to update. If one
// cannot be read, Apply reports it. If the user may not read the objects, that is logged.
func (c *Cluster) Moves(ctx context.Context, source Source, plan Plan) ([]Move, error) {
	p := newPass(c, source, plan, ApplyOptions{})
	var all []*unstructured.Unstructured
	for _, a := range p.addons {
		if a.Action == Install || a.Action == Update || a.Action == Adopt {
			if a.objs, a.err = p.objects(ctx, a); a.err != nil {
				p.log.DebugContext(ctx, "a manifest cannot be read", "addon", a.Entry.Name, "error", a.err)
			}
			all = append(all, a.objs...)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	holders, err := c.engine.Holders(ctx, all)
	if apierrors.IsForbidden(err) {
		c.unread(ctx, "which objects would move from one add-on to another", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var moves []Move
	for _, a := range p.addons {
		for _, obj := range a.objs {
			ref := unversioned(kube.RefOf(obj))
			set, held := holders[ref]
			if held && set != setOf(a.Entry) && ref.Kind != "Namespace" && p.contest(ctx, a, ref, set) == kube.Take {
				_, from := p.holder(set)
				moves = append(moves, Move{Object: kube.RefOf(obj), From: from, To: a.Entry.Name})
			}
		}
	}
	return moves, nil
}

// newPass prepares a pass over a plan.
func newPass(c *Cluster, source Source, plan Plan, o ApplyOptions) *pass {
	p := &pass{Cluster: c, source: source, options: o, said: map[string]bool{}}
	for i, d := range plan.Addons {
		p.addons = append(p.addons, &addOn{Decision: d, place: i})
	}
	return p
}

// objects reads the objects of an add-on. Of an object that its manifest has twice the later one counts, as with kOps.
func (p *pass) objects(ctx context.Context, a *addOn) ([]*unstructured.Unstructured, error) {
	objs, err := p.source.Objects(ctx, a.Entry)
	if err != nil {
		return nil, err
	}
	last := make(map[kube.Ref]int, len(objs))
	for i, obj := range objs {
		ref := kube.RefOf(obj).Placed()
		if before, twice := last[ref]; twice {
			p.log.WarnContext(ctx, "a manifest names an object twice; the later one counts", "addon", a.Entry.Name, "object", kube.RefOf(obj).String())
			objs[before] = nil
		}
		last[ref] = i
	}
	kept := objs[:0]
	for _, obj := range objs {
		if obj != nil {
			kept = append(kept, obj)
		}
	}
	return kept, nil
}

// unversioned identifies an object without its version: two versions of one kind are the same object.
func unversioned(ref kube.Ref) kube.Ref {
	ref.Version = ""
	return ref
}

// namesObject reports whether an add-on's manifest names an object now. A manifest that cannot be read may name it, so that
// nothing is lost: then it is not known.
func (p *pass) namesObject(ctx context.Context, a *addOn, ref kube.Ref) (names, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.names == nil && !p.unreadManifest {
		objs := a.objs
		var err error
		if objs == nil {
			objs, err = p.objects(ctx, a)
		}
		if err != nil {
			p.unreadManifest = true
			p.log.WarnContext(ctx, "what an add-on names cannot be read; objects that may be its own stay", "addon", a.Entry.Name, "error", err)
			return true, false
		}
		a.names = make(map[kube.Ref]bool, 2*len(objs))
		for _, obj := range objs {
			for _, live := range kube.RefOf(obj).Live() {
				a.names[live] = true
			}
		}
	}
	return a.names == nil || a.names[unversioned(ref)], a.names != nil
}

// holder is the add-on of the plan that has a set, or nil, and its name.
func (p *pass) holder(set kube.Set) (a *addOn, name string) {
	for _, a := range p.addons {
		if setOf(a.Entry) == set {
			return a, a.Entry.Name
		}
	}
	return nil, strings.TrimPrefix(set.Name, "addon-")
}

// contest decides about an object that another add-on has. One that the other no longer names moves, as it does from an
// add-on that was renamed. What both name belongs to the later one. The earlier one fails if it is not known what the later one
// names: it would else be recorded without an object that is its own.
func (p *pass) contest(ctx context.Context, a *addOn, ref kube.Ref, set kube.Set) kube.Verdict {
	other, name := p.holder(set)
	if other == nil {
		p.report("%s moves from add-on %q, which is not in these channels, to %q", ref, name, a.Entry.Name)
		return kube.Take
	}
	switch names, known := p.namesObject(ctx, other, ref); {
	case !known && other.place > a.place:
		p.report("%s may move from add-on %q, whose manifest cannot be read, to %q, which fails until then", ref, name, a.Entry.Name)
		return kube.Refuse
	case !names || !known:
		p.report("%s", Move{ref, name, a.Entry.Name})
		return kube.Take
	}
	first, last, verdict := name, a.Entry.Name, kube.Take
	if other.place > a.place {
		first, last, verdict = last, first, kube.Leave
	}
	p.report("warning: add-ons %q and %q both name %s: it belongs to the later one, %q", first, last, ref, last)
	return verdict
}

// spare keeps an object that an add-on no longer names for another one of the plan that does.
func (p *pass) spare(ctx context.Context, a *addOn, ref kube.Ref) string {
	for _, other := range p.addons {
		if other == a {
			continue
		}
		if names, _ := p.namesObject(ctx, other, ref); names {
			return fmt.Sprintf("add-on %q names it", other.Entry.Name)
		}
	}
	return ""
}
