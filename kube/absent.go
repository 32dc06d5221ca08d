package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Survey finds out which objects a cluster lacks. It lists each kind once, by metadata, however many objects it is asked for, so
// its answers are as old as the first question about the kind.
type Survey struct {
	cluster *Cluster
	labels  string

	mu     sync.Mutex
	listed map[schema.GroupKind]map[Ref]bool // nil for a kind that may not be listed
}

// NewSurvey begins a survey. labels is a selector that the wanted objects usually match: only those are listed. An object
// that is not among them is asked for by its name before it counts as absent.
func (c *Cluster) NewSurvey(labels string) *Survey {
	return &Survey{cluster: c, labels: labels, listed: map[schema.GroupKind]map[Ref]bool{}}
}

// Absent returns the objects that do not exist. namespace is that of refs without one whose kind has namespaces. An object of
// a kind that the cluster does not serve is absent.
func (s *Survey) Absent(ctx context.Context, namespace string, refs []Ref) (absent []Ref, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

func (s *Survey) exists(ctx context.Context, namespace string, ref Ref) (bool, error) {
	res, err := s.cluster.kinds.find(ctx, ref.gvk())
	var missing *noKindError
	if errors.As(err, &missing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch {
	case !res.namespaced:
		ref.Namespace = ""
	case ref.Namespace == "":
		ref.Namespace = namespace
	}
	known, ok := s.listed[ref.groupKind()]
	if !ok {
		if known, err = s.list(ctx, ref, res); err != nil {
			return false, err
		}
		s.listed[ref.groupKind()] = known
	}
	if known[ref.identity()] {
		return true, nil
	}
	there := true
	err = s.cluster.Retry(ctx, ref, func(ctx context.Context) error {
		_, err := s.cluster.metaFor(res, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if there = !apierrors.IsNotFound(err); !there {
			return nil
		}
		return err
	})
	return there, err
}

// list returns the objects of a kind in all namespaces, or nil if only single ones may be read.
func (s *Survey) list(ctx context.Context, kind Ref, res resource) (found map[Ref]bool, err error) {
	err = s.cluster.Retry(ctx, kind, func(ctx context.Context) error {
		found = map[Ref]bool{}
		options := metav1.ListOptions{LabelSelector: s.labels, Limit: listPage}
		for {
			page, err := s.cluster.metaFor(res, "").List(ctx, options)
			switch {
			case apierrors.IsForbidden(err):
				found = nil
				return nil
			case apierrors.IsResourceExpired(err) && options.Continue != "":
				options.Continue = "" // the list aged away between two pages: from the start
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
	return found, err
}
