package cluster

import (
	"net"
	"testing"
)

func TestStartNoteNamesSilentParts(t *testing.T) {
	open := func() (port string, l net.Listener) {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		return port, l
	}
	first, kubelet := open()
	second, etcd := open()
	third, server := open()
	parts := []part{{"the kubelet", first}, {"etcd", second}, {"the API server", third}}
	for _, step := range []struct {
		then net.Listener
		want string
	}{
		{server, "all of the control plane listens; waiting until it is healthy"},
		{etcd, "the control plane starts; waiting for the API server"},
		{kubelet, "the control plane starts; waiting for etcd, the API server"},
		{nil, "waiting for the kubelet"},
	} {
		if got := startNote(t.Context(), parts); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
		if step.then != nil {
			_ = step.then.Close()
		}
	}
}
