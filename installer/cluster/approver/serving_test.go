package approver_test

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

func TestNodeServesOnlyItsNamesAndAddresses(t *testing.T) {
	config := shared.Config(t)
	client1 := certificatesv1.UsageClientAuth
	sent := map[string]string{} // why, by the name of the request
	for why, r := range map[string]request{
		"yes: its own":                       {},
		"yes: an RSA key":                    {usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth}},
		"yes: a control plane":               {user: "system:node:host-1", names: []string{"host-1"}, addresses: []string{}},
		"the address of another node":        {addresses: []string{"10.10.0.2", "10.10.0.1"}},
		"an address of nobody":               {addresses: []string{"10.10.0.9"}},
		"the address of a Service":           {addresses: []string{"10.96.0.50"}},
		"the address of the API":             {addresses: []string{"10.10.0.100"}},
		"an address of every host":           {addresses: []string{"127.0.0.1"}},
		"the name of another node":           {names: []string{"worker-1", "host-1"}},
		"the name of a Service":              {names: []string{"kubernetes.default.svc"}},
		"a node that is called as a Service": {user: "system:node:kubernetes.default.svc", names: []string{"kubernetes.default.svc"}, addresses: []string{}},
		"a URI":                              {names: []string{"worker-1"}, uris: []string{"spiffe://cluster/worker-1"}},
		"nothing":                            {names: []string{}, addresses: []string{}},
		"the subject of another":             {subject: "system:node:host-1"},
		"another group":                      {organization: "system:masters"},
		"client authentication":              {usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, client1}},
		"a node that the cluster lacks":      {user: "system:node:gone", names: []string{"gone"}},
		"somebody who is not a node":         {user: "mallory", group: "people", subject: "system:node:worker-1"},
		"a node's name without its group":    {group: "people"},
		"names in a client certificate":      {signer: certificatesv1.KubeAPIServerClientKubeletSignerName, usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, client1}},
	} {
		sent[r.fill().send(t, config)] = why
	}
	decided := decide(t, config)
	for name, why := range sent {
		if want := why[:3] == "yes"; decided[name] != want {
			t.Errorf("%s: approved is %v", why, decided[name])
		}
	}
}
