package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestFirewallLetsAllNetworksThrough(t *testing.T) {
	for behaviour, row := range map[string]struct {
		networks node.ClusterNetworks
		want     string
	}{
		"IPv4":       {node.ClusterNetworks{Pods: "10.1.0.0/20", Services: "10.2.0.0/22"}, "allow from 10.1.0.0/20,allow from 10.2.0.0/22"},
		"dual-stack": {node.ClusterNetworks{Pods: "10.1.0.0/20,fd00:1::/56", Services: "10.2.0.0/22,fd00:2::/112"}, "allow from 10.1.0.0/20,allow from fd00:1::/56,allow from fd00:2::/112"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			programs := t.TempDir()
			calls := filepath.Join(programs, "calls")
			script := "#!/bin/sh\n[ \"$1\" = status ] && echo Status: active\necho \"$@\" >> " + calls + "\n"
			for name, text := range map[string]string{"ufw": script, "systemctl": "#!/bin/sh\nexit 3\n"} {
				if err := fixture.WriteProgram(filepath.Join(programs, name), text); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
			i := made(t, with(t, "kubernetes", ""))
			if err := i.hooks.restore(t.Context(), row.networks.State()); err != nil {
				t.Fatal(err)
			}
			if _, err := i.openFirewall(t.Context()); err != nil {
				t.Fatal(err)
			}
			called, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			for want := range strings.SplitSeq(row.want, ",") {
				if !strings.Contains(string(called), want+" comment") {
					t.Errorf("%q was not called:\n%s", want, called)
				}
			}
			if strings.Contains(string(called), "from  comment") {
				t.Errorf("an empty network was opened:\n%s", called)
			}
		})
	}
}
