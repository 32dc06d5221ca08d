package operator

import (
	"strings"
	"testing"
)

func TestIdentityHasAddress(t *testing.T) {
	for _, address := range []string{"10.1.2.3", "fd00:1:2:3:4:5:6:7", "fd00::7"} {
		r := replica{Replicas: Replicas{Namespace: "ns", Pod: "operator-5.x", Address: address}}
		if got, err := addressOf(r.identity()); err != nil || got != address {
			t.Errorf("%s: %s, %v", r.identity(), got, err)
		}
	}
	for _, other := range []string{"", "pod", "host_1_2_3", "a.b.ns.pod", "operator.10-1-2.ns.pod", "operator.10-1-2-3.ns.node"} {
		if got, err := addressOf(other); err == nil {
			t.Errorf("%s: %s", other, got)
		}
	}
}

func TestReplicasNeedNames(t *testing.T) {
	for want, r := range map[string]Replicas{
		"--namespace":                   {Pod: "p", Address: "10.1.2.3"},
		"--pod":                         {Namespace: "n", Address: "10.1.2.3"},
		`--listen-address is "0.0.0.0"`: {Namespace: "n", Pod: "p", Address: "0.0.0.0"},
	} {
		if err := r.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
