package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// surveyPage is how many objects a list of a survey returns at once. It has only their metadata.
const surveyPage = 500

const (
	surveyLists = 4               // how many kinds are listed at once
	prepareTime = 5 * time.Second // the end of abandoned lists
)

// Survey finds the objects that a cluster lacks. It lists each kind once, by metadata, however many objects it is asked for, so
// its answers are as old as the first question about the kind. If it may not list a kind in all namespaces, it lists it once in each
// namespace that it is asked for.
type Survey struct {
	cluster *Cluster
	labels  string

	turn sync.Mutex // one question at a time, so that nothing is listed twice

	mu     sync.Mutex
	listed map[area]map[Ref]bool // nil if listing is forbidden
}

// area is the scope of one list: a kind in a namespace, or in all if that is "".
type area struct {
	kind      schema.GroupKind
	namespace string
}

// NewSurvey begins a survey. labels is a selector that the wanted objects usually match: only those are listed. An object that
// is not among them is read by its name before it counts as absent.
func (c *Cluster) NewSurvey(labels string) *Survey {
	return &Survey{cluster: c, labels: labels, listed: map[area]map[Ref]bool{}}
}

// Absent returns the objects that do not exist. namespace is the default for refs of namespaced kinds. An object of a kind that
// the cluster does not serve is absent.
func (s *Survey) Absent(ctx context.Context, namespace string, refs []Ref) (absent []Ref, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	for _, ref := range refs {
		there, err := s.exists(ctx, namespace, ref)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", ref, err)
		}
		if !there {
			absent = append(absent, ref)
		}
	}
	return absent, nil
}

// Prepare lists the kinds of the given objects, several at once, so that Absent finds them listed. A kind that cannot be listed in a
// few seconds is left to Absent.
func (s *Survey) Prepare(ctx context.Context, namespace string, refs []Ref) {
	s.turn.Lock()
	defer s.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	kinds := map[schema.GroupKind][]Ref{}
	for _, ref := range refs {
		kinds[ref.groupKind()] = append(kinds[ref.groupKind()], ref)
	}
	var several errgroup.Group
	several.SetLimit(surveyLists)
	for _, refs := range kinds {
		several.Go(func() error {
			for _, ref := range refs {
				ref, res, err := s.place(ctx, namespace, ref)
				if err == nil && res != nil {
					_, err = s.known(ctx, ref, *res)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	_ = several.Wait() // Absent meets the same error, and returns it
}

// place returns an object with the namespace that its kind requires, and its kind, or nil if the cluster does not serve that.
func (s *Survey) place(ctx context.Context, namespace string, ref Ref) (Ref, *resource, error) {
	res, err := s.cluster.kinds.find(ctx, ref.gvk())
	if _, ok := errors.AsType[*noKindError](err); ok {
		return ref, nil, nil
	}
	if err != nil {
		return ref, nil, err
	}
	switch {
	case !res.namespaced:
		ref.Namespace = ""
	case ref.Namespace == "":
		ref.Namespace = namespace
	}
	return ref, &res, nil
}

func (s *Survey) exists(ctx context.Context, namespace string, ref Ref) (bool, error) {
	ref, res, err := s.place(ctx, namespace, ref)
	if err != nil || res == nil {
		return false, err
	}
	known, err := s.known(ctx, ref, *res)
	if err != nil || known[ref.identity()] {
		return err == nil, err
	}
	there := true
	err = s.cluster.Retry(ctx, ref, func(ctx context.Context) error {
		_, err := s.cluster.metaFor(*res, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if there = !apierrors.IsNotFound(err); !there {
			return nil
		}
		return err
	})
	return there, err
}

// known returns the objects of the kind of ref, at least those in its namespace, or nil if only single ones may be read. The cluster
// remembers which kinds may not be listed in all namespaces.
func (s *Survey) known(ctx context.Context, ref Ref, res resource) (found map[Ref]bool, err error) {
	everywhere := area{ref.groupKind(), ""}
	if _, narrow := s.cluster.narrow.Load(everywhere.kind); !narrow {
		if found, err = s.list(ctx, everywhere, ref, res); err != nil || found != nil || !res.namespaced {
			return found, err
		}
		s.cluster.narrow.Store(everywhere.kind, true)
	}
	return s.list(ctx, area{everywhere.kind, ref.Namespace}, ref, res)
}

// list returns the objects of an area, or nil if they may not be listed.
func (s *Survey) list(ctx context.Context, of area, kind Ref, res resource) (found map[Ref]bool, err error) {
	s.mu.Lock()
	found, listed := s.listed[of]
	s.mu.Unlock()
	if listed {
		return found, nil
	}
	err = s.cluster.Retry(ctx, kind, func(ctx context.Context) error {
		found = map[Ref]bool{}
		options := metav1.ListOptions{LabelSelector: s.labels, Limit: surveyPage}
		for {
			page, err := s.cluster.metaFor(res, of.namespace).List(ctx, options)
			switch {
			case apierrors.IsForbidden(err):
				found = nil
				return nil
			case apierrors.IsNotFound(err):
				s.cluster.kinds.forget(kind.gvk()) // its definition was deleted since it was looked up
				return nil
			case apierrors.IsResourceExpired(err) && options.Continue != "":
				options.Continue = "" // the list expired between two pages: restart
				continue
			case err != nil:
				return err
			}
			for i := range page.Items {
				one := kind
				one.Namespace, one.Name = page.Items[i].Namespace, page.Items[i].Name
				found[one.identity()] = true
			}
			if options.Continue = page.Continue; options.Continue == "" {
				return nil
			}
		}
	})
	if err == nil {
		s.mu.Lock()
		s.listed[of] = found
		s.mu.Unlock()
	}
	return found, err
}
