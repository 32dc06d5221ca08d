package control

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/placement"
	"github.com/sealift/sealift/fleet/strategy"
)

// decisionStore is a hub that has PlacementDecisions only. An API server cannot be looked at between two writes.
type decisionStore struct {
	client.Client

	objects map[string]*ocm.PlacementDecision
	wrote   func()
}

func (s *decisionStore) Status() client.SubResourceWriter { return statusStore{store: s} }

func (s *decisionStore) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for _, d := range s.objects {
		list.(*ocm.List[ocm.PlacementDecision]).Items = append(list.(*ocm.List[ocm.PlacementDecision]).Items, *copyOf(d))
	}
	return nil
}

func (s *decisionStore) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	d := copyOf(o.(*ocm.PlacementDecision))
	d.Status = ocm.PlacementDecisionStatus{} // as an API server does
	s.objects[d.Name] = d
	s.wrote()
	return nil
}

func (s *decisionStore) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	d := copyOf(o.(*ocm.PlacementDecision))
	d.Status = s.objects[d.Name].Status
	s.objects[d.Name] = d
	s.wrote()
	return nil
}

func (s *decisionStore) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	delete(s.objects, o.GetName())
	s.wrote()
	return nil
}

// groups returns the first group of each cluster, as a rollout counts it.
func (s *decisionStore) groups(t *testing.T) map[string]int32 {
	t.Helper()
	var list ocm.List[ocm.PlacementDecision]
	if err := s.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	plan, err := strategy.New(strategy.Input{Groups: strategy.Groups(list.Items)})
	if err != nil {
		t.Fatal(err)
	}
	of := make(map[string]int32)
	for name, g := range plan.Groups {
		of[name] = g.Index
	}
	return of
}

type statusStore struct {
	client.SubResourceWriter

	store *decisionStore
}

func (s statusStore) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	s.store.objects[o.GetName()].Status = copyOf(o.(*ocm.PlacementDecision)).Status
	s.store.wrote()
	return nil
}

// TestRegroupingKeepsClusters moves clusters between decisions, and checks all decisions after each write.
func TestRegroupingKeepsClusters(t *testing.T) {
	p := &ocm.Placement{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: "default", UID: "1"}}
	selector := func(tier string) ocm.DecisionGroup {
		g := ocm.DecisionGroup{GroupName: tier}
		g.GroupClusterSelector.LabelSelector = metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}
		return g
	}
	p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []ocm.DecisionGroup{selector("gold"), selector("tin")}
	random := rand.New(rand.NewPCG(1, 2))
	s := &decisionStore{objects: make(map[string]*ocm.PlacementDecision)}
	c := &controllers{Client: s, direct: s}
	for round := range 60 {
		p.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(random.Int32N(200))
		var clusters []*ocm.ManagedCluster
		for i := range 300 {
			if random.IntN(8) > 0 {
				labels := map[string]string{"tier": []string{"gold", "tin", "none"}[random.IntN(3)]}
				clusters = append(clusters, &ocm.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%03d", i), Labels: labels}})
			}
		}
		want, _, err := placement.Group(p, clusters)
		if err != nil {
			t.Fatal(err)
		}
		after := make(map[string]int32)
		for _, d := range want {
			index, _ := strconv.Atoi(d.Labels[ocm.DecisionGroupIndexLabel])
			for _, cluster := range d.Status.Decisions {
				after[cluster.ClusterName] = int32(index)
			}
		}
		before, writes := s.groups(t), 0
		s.wrote = func() {
			writes++
			now := s.groups(t)
			for name, group := range before {
				if _, stays := after[name]; !stays {
					continue
				}
				if g, found := now[name]; !found {
					t.Fatalf("round %d: after write %d, no decision has cluster %s", round, writes, name)
				} else if g < min(group, after[name]) {
					t.Fatalf("round %d: after write %d, cluster %s is in group %d; it moves from %d to %d", round, writes, name, g, group, after[name])
				}
			}
		}
		if err := c.decide(t.Context(), p, nil, want); err != nil {
			t.Fatal(err)
		}
		if now := s.groups(t); fmt.Sprint(now) != fmt.Sprint(after) {
			t.Fatalf("round %d: the decisions have %v, want %v", round, now, after)
		}
		if !decided(s.objects, want) {
			t.Fatalf("round %d: something is left to write", round)
		}
		writes = 0
		if err := c.decide(t.Context(), p, nil, want); err != nil || writes > 0 {
			t.Fatalf("round %d: a second look writes %d times: %v", round, writes, err)
		}
	}
}
