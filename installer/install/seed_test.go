package install

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

func TestSeedSetsNetworksAndAddress(t *testing.T) {
	i := made(t, with(t, "kubernetes", "", "kubernetes_pre_init"))
	i.options.Seed = &Seed{ID: "one", Kubernetes: "1", Networks: node.ClusterNetworks{Pods: "10.1.0.0/20", Services: "10.2.0.0/22"}, Address: "192.0.2.9",
		Settle: func(context.Context, string, string, io.Writer) error { return nil }}
	if s := i.newSettings(); s.pods.network != "10.1.0.0/20" || s.services.network != "10.2.0.0/22" || s.address != "192.0.2.9" {
		t.Errorf("the settings are %+v", s)
	}
	i.options.Seed.Encrypted = true
	if vars := i.variables(); !cluster.Encrypts(vars) || vars[cluster.EncryptSecrets] != "" {
		t.Error("a seed with encrypted Secrets does not go on encrypting, or is taken for a wish of the Installer")
	}
	plan := i.makePlan()
	steps := ids(plan)
	if at := slices.Index(steps, node.InitStep); at < 0 || steps[at+1] != "restore/others" {
		t.Errorf("the steps are %v", steps)
	}
}

func TestSeedNeedsBareHostAndSameKubernetes(t *testing.T) {
	init := func(seed string) lifecycle.Plan {
		return lifecycle.Plan{{ID: node.InitStep, Inputs: initInputs, Timeout: time.Minute,
			Run: func(context.Context) (lifecycle.State, error) { return lifecycle.State{seedState: seed}, nil }}}
	}
	join := lifecycle.Plan{{ID: node.JoinStep, Timeout: time.Minute, Run: func(context.Context) (lifecycle.State, error) { return nil, nil }}}
	for why, row := range map[string]struct {
		seed   Seed
		addOn  string
		before lifecycle.Plan
		want   string
	}{
		"a bare host":            {seed: Seed{ID: "one", Kubernetes: "1"}, addOn: "kubernetes"},
		"again":                  {seed: Seed{ID: "one", Kubernetes: "1"}, addOn: "kubernetes", before: init("one")},
		"another snapshot":       {seed: Seed{ID: "two", Kubernetes: "1"}, addOn: "kubernetes", before: init("one"), want: "part of a cluster already"},
		"a cluster of its own":   {seed: Seed{ID: "one", Kubernetes: "1"}, addOn: "kubernetes", before: init(""), want: "part of a cluster already"},
		"a node of a cluster":    {seed: Seed{ID: "one", Kubernetes: "1"}, addOn: "kubernetes", before: join, want: "part of a cluster already"},
		"another version":        {seed: Seed{ID: "one", Kubernetes: "2"}, addOn: "kubernetes", want: "use a bundle with that version"},
		"a bundle that has none": {seed: Seed{ID: "one", Kubernetes: "1"}, addOn: "other", want: "has no Kubernetes"},
	} {
		i := made(t, with(t, row.addOn, ""))
		i.options.Seed = &row.seed
		if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, row.before, i.Journal, func(lifecycle.Event) {}); err != nil {
			t.Fatal(err)
		}
		if err := i.checkSeed(); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", why, err, row.want)
		}
	}
}
