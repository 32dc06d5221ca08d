package status

import (
	"reflect"
	"testing"
	"testing/fstest"
)

// TestSettingsBreakingPodNetworkAreReported: libvirt and hardening profiles switch them off while a cluster runs (replicatedhq/kURL#2174,
// moby/moby#47966).
func TestSettingsBreakingPodNetworkAreReported(t *testing.T) {
	root := fstest.MapFS{
		"proc/sys/net/ipv4/ip_forward": {Data: []byte("0\n")}, "proc/sys/net/bridge/bridge-nf-call-iptables": {Data: []byte("1\n")},
		"etc/sysctl.conf": {Data: []byte("\nnet.bridge.bridge-nf-call-iptables=0\n")},
	}
	if found, err := readSettings(root); err != nil || found != nil {
		t.Errorf("a host without our settings: %v, %v", found, err)
	}
	root["etc/sysctl.d/zz-sealift-kubernetes.conf"] = &fstest.MapFile{}
	want := []Setting{{Name: "net.ipv4.ip_forward", Is: "0"}, {Name: "net.bridge.bridge-nf-call-iptables", Is: "0", File: "/etc/sysctl.conf:2"}}
	found, err := readSettings(root)
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("%+v, %v; want %+v", found, err, want)
	}
	s := Status{State: "installed", Cluster: "answers", Settings: found[1:]}
	if !s.Healthy() {
		t.Error("a file over which ours wins is trouble")
	}
	if s.Settings = found; s.Healthy() {
		t.Error("a node that does not forward is healthy")
	}
}
