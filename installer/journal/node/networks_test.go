package node

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/sealift/sealift/installer/journal/lifecycle"
)

func TestNetworksOfADualStackClusterAreListedOneByOne(t *testing.T) {
	n := ClusterNetworks{Pods: "10.32.0.0/20,fd00:1::/56", Services: "10.96.0.0/22,fd00:2::/112"}
	if got, want := n.List(), []string{"10.32.0.0/20", "fd00:1::/56", "10.96.0.0/22", "fd00:2::/112"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want := lifecycle.State{PodNetwork: "10.32.0.0/20", PodNetwork6: "fd00:1::/56", ServiceNetwork: "10.96.0.0/22", ServiceNetwork6: "fd00:2::/112"}
	if got := n.State(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	single := ClusterNetworks{Pods: "10.32.0.0/20", Services: "10.96.0.0/22"}
	if got := single.State(); len(got) != 2 {
		t.Errorf("a cluster with IPv4 alone: %v", got)
	}
}

func TestNetworksAreReadFromTheRunAndTheJournal(t *testing.T) {
	chosen := []lifecycle.Record{{State: ClusterNetworks{Pods: "10.32.0.0/20", Services: "10.96.0.0/22"}.State()}}
	for behaviour, row := range map[string]struct {
		run     []string
		records []lifecycle.Record
		want    []string
	}{
		"the host that made the cluster":    {nil, chosen, []string{"10.32.0.0/20", "10.96.0.0/22"}},
		"a joining host":                    {[]string{"10.32.0.0/20", "10.96.0.0/22"}, nil, []string{"10.32.0.0/20", "10.96.0.0/22"}},
		"both":                              {[]string{"10.32.0.0/20"}, chosen, []string{"10.32.0.0/20", "10.96.0.0/22"}},
		"a dual-stack record of an old run": {[]string{"10.32.0.0/20,fd00:1::/56", ""}, nil, []string{"10.32.0.0/20", "fd00:1::/56"}},
	} {
		root := t.TempDir()
		if err := os.Mkdir(StateDir(root), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := (Run{Networks: row.run}).Write(root); err != nil {
			t.Fatal(err)
		}
		if got, err := Networks(root, row.records); err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%s: got %v, %v; want %v", behaviour, got, err, row.want)
		}
	}
	if got, err := Networks(t.TempDir(), chosen); err != nil || len(got) != 2 {
		t.Errorf("without a run: %v, %v", got, err)
	}
}
