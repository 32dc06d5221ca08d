package approver_test

import (
	"net"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/token"
)

// asking is a party of the matrix as the API server knows it, and the name that it calls its own.
type asking struct {
	request
	own string
}

// parties returns each party of the matrix as it asks the API server: a token by a real one, the others by who they have proved to be.
func parties(t *testing.T, client kubernetes.Interface) map[identity.Party]asking {
	t.Helper()
	create := func() string {
		whole, err := token.Create(t.Context(), client, time.Hour, "")
		if err != nil {
			t.Fatal(err)
		}
		return whole
	}
	return map[identity.Party]asking{
		identity.Anonymous:     {request{user: "system:anonymous"}, "new-anonymous"},
		identity.Token:         {request{token: create()}, "new-token"},
		identity.Invited:       {request{token: create()}, "new-invited"}, // the approver sees no more of it than a token
		identity.Worker:        {request{user: "system:node:worker-1", group: "system:nodes"}, "worker-1"},
		identity.Member:        {request{user: "sealift:control-plane:host-1", group: "system:authenticated"}, "host-1"},
		identity.Administrator: {request{}, "host-1"},
	}
}

// asks returns a party's request for a right of the approver; several where there is more than one way.
func asks(t *testing.T, client kubernetes.Interface, right identity.Right, party identity.Party, as asking) (all []request) {
	t.Helper()
	serving := func(subject string, names ...string) request {
		r := as.request
		r.subject, r.organization, r.signer = "system:node:"+subject, "system:nodes", certificatesv1.KubeletServingSignerName
		r.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
		for _, name := range names {
			if net.ParseIP(name) != nil {
				r.addresses = append(r.addresses, name)
			} else {
				r.names = append(r.names, name)
			}
		}
		return r
	}
	switch right {
	case identity.NewWorker:
		return []request{as.client("fresh-" + strings.ReplaceAll(string(party), " ", "-"))}
	case identity.RenewClient:
		if party == identity.Token || party == identity.Invited {
			as.own = "worker-2" // a node that is not new
		}
		return []request{as.client(as.own)}
	case identity.RenewEnded:
		r := as.client("worker-2")
		if party == identity.Token {
			whole, err := token.CreateToRenew(t.Context(), client, time.Hour, "", "worker-2")
			if err != nil {
				t.Fatal(err)
			}
			r.token = whole
		}
		return []request{r}
	case identity.ServeOwn:
		return []request{serving(as.own, as.own)}
	case identity.AnotherNode:
		for _, name := range []string{"worker-2", "host-1", "host-2", "host-3", "host-1.rack.example", "api.corp.example"} {
			all = append(all, as.client(name))
		}
		return all
	case identity.ServeAPI:
		for _, name := range []string{"kubernetes", "api.corp.example", "10.10.0.100", "10.10.0.61"} {
			all = append(all, serving(as.own, name))
		}
		return all
	case identity.ServeAsMember:
		for _, signer := range []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeAPIServerClientSignerName} {
			r := as.client("")
			r.subject, r.signer = "sealift:control-plane:host-1", signer
			if signer == certificatesv1.KubeletServingSignerName {
				r.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
				r.names = []string{"host-1"}
			}
			all = append(all, r)
		}
		return all
	}
	t.Fatalf("this test does not know how to ask for %q", right)
	return nil
}

// TestApproverFollowsMatrix requests each right of the approver as each party.
func TestApproverFollowsMatrix(t *testing.T) {
	config := shared.Config(t)
	client := kubernetes.NewForConfigOrDie(config)
	type cell struct {
		right identity.Right
		party identity.Party
	}
	sent := map[cell][]string{}
	cells, all := 0, parties(t, client)
	for _, right := range identity.Rights() {
		if !strings.HasPrefix(string(right), "approver: ") {
			continue
		}
		for _, party := range identity.Parties() {
			cells++
			for _, r := range asks(t, client, right, party, all[party]) {
				sent[cell{right, party}] = append(sent[cell{right, party}], sendAs(t, config, party, r))
			}
		}
	}
	decided := decide(t, config)
	for c, names := range sent {
		for n, name := range names {
			if want := c.party.Has(c.right); decided[name] != want {
				t.Errorf("%s, %s (%d): approved is %v", c.party, c.right, n, decided[name])
			}
		}
	}
	if cells != 7*6 {
		t.Errorf("%d cells", cells)
	}
}

// sendAs sends a request. Only an anonymous one is refused by the API server itself.
func sendAs(t *testing.T, config *rest.Config, party identity.Party, r request) string {
	t.Helper()
	name, err := r.try(t, config)
	if (err != nil) != (party == identity.Anonymous) {
		t.Fatalf("%s: %+v: %v", party, r, err)
	}
	return name
}
