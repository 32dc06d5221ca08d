package airgap_test

import (
	"encoding/json"
	"strings"
)

// supportBundle takes a support bundle on the host and expects files in it, and no keys.
func supportBundle(n node, files ...string) {
	n.t.Helper()
	const out = "/tmp/support.tar.gz"
	defer n.must("rm -rf " + out + " /tmp/support")
	var summary struct {
		Results []answer
		Errors  []string
	}
	if err := json.Unmarshal([]byte(n.must("sealift support-bundle --out "+out+" -o json 2>/dev/null")), &summary); err != nil {
		n.t.Fatal(err)
	}
	if got := n.must("stat -c %a " + out + "; tar xzf " + out + " -C /tmp"); strings.TrimSpace(got) != "600" {
		n.t.Errorf("the support bundle has mode %s", got)
	}
	all := n.must("cd /tmp/support && find . -type f | sort")
	for _, name := range files {
		if !strings.Contains(all, name) {
			n.t.Errorf("the support bundle has no %s, only\n%s\n%q", name, all, summary.Errors)
		}
	}
	// Every key of the node, and the tokens of the cluster, in plain form and as in a kubeconfig.
	n.refuses("cat /etc/kubernetes/pki/*.key /etc/kubernetes/pki/etcd/*.key | grep -v -e -----BEGIN -e -----END | cut -c1-60 >/tmp/keys; "+
		"grep -h client-key-data /etc/kubernetes/*.conf | awk '{print substr($2,80,60)}' >>/tmp/keys; test -s /tmp/keys || exit 9; "+
		"grep -rFl -f /tmp/keys /tmp/support; code=$?; rm /tmp/keys; exit $code", 1, "")
}
