//go:build grid

package airgap_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// certificate is the output of 'sealift certs' for a file.
type certificate struct {
	File, Kind, Subject, Problem string
	End                          *time.Time
	UsedBy                       []string
}

func (n node) certificates() map[string]certificate {
	n.t.Helper()
	var all []certificate
	if err := json.Unmarshal([]byte(n.must("sealift certs -o json 2>/dev/null")), &all); err != nil {
		n.t.Fatal(err)
	}
	byFile := map[string]certificate{}
	for _, c := range all {
		byFile[c.File] = c
	}
	return byFile
}

// TestRunningNodeRenewsCertificates kills a renewal in its middle, and runs it again.
func TestRunningNodeRenewsCertificates(t *testing.T) {
	r := build(t, current, "debian-12")
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	n.must(install)
	before := n.certificates()
	if plan := n.must("sealift certs renew --plan"); !strings.Contains(plan, "certs/etcd") || !strings.Contains(plan, "renews /etc/kubernetes/admin.conf") {
		t.Errorf("the plan is\n%s", plan)
	}
	if again := n.certificates(); *again["/etc/kubernetes/admin.conf"].End != *before["/etc/kubernetes/admin.conf"].End {
		t.Error("the plan has renewed a certificate")
	}
	n.interrupt(interruption{command: "exec sealift certs renew", step: "certs/etcd", record: "started", signal: "KILL"})
	n.refuses("sealift status", 1, "sudo sealift certs renew")
	issued := n.certificates()
	began := time.Now()
	out := n.must("sealift certs renew")
	t.Logf("resumed in %s:\n%s", time.Since(began).Round(time.Second), out)
	if strings.Contains(out, "certs/issue: ") {
		t.Errorf("what was finished ran again:\n%s", out)
	}
	after := n.certificates()
	for file, c := range after {
		was := before[file]
		switch {
		case c.Problem != "":
			t.Errorf("%s: %s", file, c.Problem)
		case c.Kind == "ca" || c.Kind == "key pair" || c.End == nil:
			if c.Kind == "ca" && !c.End.Equal(*was.End) {
				t.Errorf("the CA %s has changed", file)
			}
		case strings.HasSuffix(file, "/kubelet-server-current.pem"): // the kubelet renews it
		case !c.End.After(*was.End):
			t.Errorf("%s ends at %s, and ended at %s", file, c.End, was.End)
		case !c.End.Equal(*issued[file].End):
			t.Errorf("%s was renewed twice", file)
		}
	}
	if len(after) != len(before) || !slices.Equal(after["/etc/kubernetes/pki/etcd/server.crt"].UsedBy, []string{"etcd"}) {
		t.Errorf("%d files, were %d: %v", len(after), len(before), after["/etc/kubernetes/pki/etcd/server.crt"])
	}
	// what runs uses them
	for port, file := range map[string]string{"6443": "pki/apiserver.crt", "2379": "pki/etcd/server.crt"} {
		block, _ := pem.Decode([]byte(n.must("cat /etc/kubernetes/" + file)))
		shown, err := n.shown(net.JoinHostPort(n.Address().String(), port))
		if err != nil || !bytes.Equal(shown.Raw, block.Bytes) {
			t.Errorf("port %s does not show %s: %v", port, file, err)
		}
	}
	n.must("sealift status")
	cluster(n)
	secondRun(n)
	began = time.Now()
	n.must("sealift certs renew")
	t.Logf("without an interruption in %s", time.Since(began).Round(time.Second))
	if next := n.certificates(); !next["/etc/kubernetes/admin.conf"].End.After(*after["/etc/kubernetes/admin.conf"].End) {
		t.Error("a second renewal renews nothing")
	}
	n.must("sealift status")
}
