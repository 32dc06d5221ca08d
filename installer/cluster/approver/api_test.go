package approver_test

import (
	"net"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/token"
)

// ofTheAPI are names and addresses of the API and of control planes, from each source, and other ways to write them.
var ofTheAPI = []string{
	"api.corp.example", "API.corp.Example", "api.corp.example.", "203.0.113.7", "fd00::100", "any.api.example", "etcd.corp.example", // kubeadm's certSANs
	"10.10.0.100", "::ffff:10.10.0.100", "fd00:0:0:0::100", // the endpoint, as a patch or an administrator writes it
	"lb.corp.example", "earlier-lb.corp.example", "LB.CORP.EXAMPLE.", "old-lb.corp.example", "10.10.0.101", // load balancers: the next one, that of joining hosts, that of kube-proxy
	"host-1", "HOST-1", "host-1.", "host-1.rack.example", "host-1.corp.example", "10.10.0.1", "::ffff:10.10.0.1", "fd00::1", // a control plane
	"host-2", "10.10.0.62", "patched.corp.example", // another one, according to its certificate
	"host-3", "10.10.0.63", // a member of etcd that is not a node yet
	"10.10.0.61",                     // an API server on the list
	"own.corp.example", "10.10.0.64", // this control plane's own certificate, and the address that it is about to get
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.k8s.example", "x.k8s.example", "10.96.0.50", // Services
	"localhost", "localhost.localdomain", "127.0.0.1", "::1", "::ffff:127.0.0.1",
}

// TestWorkerServesNoNameOfAPI asks for each name and address as a node that claims it: worker-1 has all of them in its status. Where
// that is a name that a node may have, a host also asks to join by it.
func TestWorkerServesNoNameOfAPI(t *testing.T) {
	config := shared.Config(t)
	client := kubernetes.NewForConfigOrDie(config)
	whole, err := token.Create(t.Context(), client, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]string{}
	for _, name := range ofTheAPI {
		for _, beside := range []bool{false, true} { // alone, and in addition to the node's own
			r := request{names: []string{}, addresses: []string{}}
			if beside {
				r.names, r.addresses = []string{"worker-1"}, []string{"10.10.0.2"}
			}
			if net.ParseIP(name) != nil {
				r.addresses = append(r.addresses, name)
			} else {
				r.names = append(r.names, name)
			}
			sent[r.fill().send(t, config)] = "worker-1 serves as " + name
		}
		sent[request{token: whole}.client(name).send(t, config)] = "a host joins as " + name
		sent[request{user: "system:node:" + name, group: "system:nodes", names: []string{name}, addresses: []string{}}.fill().send(t, config)] = "a node of that name serves as " + name
	}
	own := request{}.fill().send(t, config)
	rsa := request{usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth}}.fill().send(t, config)
	decided := decide(t, config)
	for name, what := range sent {
		// host-1 is a control plane: its own kubelet serves by its name
		if decided[name] && what != "a node of that name serves as host-1" {
			t.Errorf("approved: %s", what)
		}
	}
	if !decided[own] || !decided[rsa] || len(ofTheAPI) < 30 {
		t.Errorf("its own: %v, %v; %d names", decided[own], decided[rsa], len(ofTheAPI))
	}
}
