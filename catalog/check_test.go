package catalog

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
)

func installerOf(t *testing.T, addOns string) *spec.Installer {
	t.Helper()
	i, err := spec.Parse("i", strings.NewReader("apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nspec:\n"+addOns))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// sound is a valid Installer; a row changes one thing.
const sound = "  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.6}\n  flannel: {version: 0.28.7}\n"

func TestRuleErrorsNameFieldReasonAndRemedy(t *testing.T) {
	without := func(key string) string {
		var kept []string
		for line := range strings.Lines(sound) {
			if !strings.HasPrefix(line, "  "+key+":") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	for name, row := range map[string]struct {
		spec string
		want []string // the beginnings of the messages
	}{
		"nothing wrong":          {sound, nil},
		"Kubernetes too old":     {without("kubernetes") + "  kubernetes: {version: 1.30.14}\n", []string{"kubernetes.version 1.30.14: "}},
		"a whole line too old":   {without("kubernetes") + "  kubernetes: {version: 1.30.x}\n", []string{"kubernetes.version 1.30.x: "}},
		"the oldest that works":  {without("kubernetes") + "  kubernetes: {version: 1.31.0}\n", nil},
		"a line that works":      {without("kubernetes") + "  kubernetes: {version: 1.31.x}\n", nil},
		"with a v":               {without("kubernetes") + "  kubernetes: {version: v1.30.1}\n", []string{"kubernetes.version v1.30.1: "}},
		"the newest":             {"  kubernetes: {version: latest}\n  containerd: {version: latest}\n  flannel: {version: latest}\n  rook: {version: latest}\n", nil},
		"two runtimes":           {sound + "  docker: {version: 20.10.17}\n", []string{"docker.version 20.10.17 does not go with kubernetes.version 1.36.3: ", "containerd and docker: a cluster has one container runtime"}},
		"two pod networks":       {sound + "  weave: {version: 2.8.1}\n", []string{"flannel and weave: a cluster has one pod network"}},
		"three pod networks":     {sound + "  weave: {version: 2.8.1}\n  antrea: {version: 1.4.0}\n", []string{"flannel and weave: ", "flannel and antrea: "}},
		"an old containerd":      {without("containerd") + "  containerd: {version: 1.5.11}\n", []string{"containerd.version 1.5.11 does not go with kubernetes.version 1.36.3: "}},
		"old containerd, a line": {without("containerd") + "  containerd: {version: 1.5.x}\n", []string{"containerd.version 1.5.x "}},
		"weave and containerd":   {"  kubernetes: {version: 1.31.x}\n  weave: {version: latest}\n  containerd: {version: 1.6.4}\n", []string{"containerd.version 1.6.4 does not go with weave.version latest: "}},
		"an old Rook":            {sound + "  rook: {version: 1.0.4-14.2.21}\n", []string{"rook.version 1.0.4-14.2.21 does not go with kubernetes.version 1.36.3: "}},
		"the oldest Rook":        {sound + "  rook: {version: 1.9.12}\n", nil},
		"an old Longhorn":        {sound + "  longhorn: {version: 1.3.x}\n", []string{"longhorn.version 1.3.x "}},
		"an old cert-manager":    {sound + "  certManager: {version: 1.0.3}\n", []string{"certManager.version 1.0.3 "}},
		"an old Metrics Server":  {sound + "  metricsServer: {version: 0.3.7}\n", []string{"metricsServer.version 0.3.7 "}},
		"the oldest of both":     {sound + "  certManager: {version: 1.9.1}\n  metricsServer: {version: 0.4.1}\n", nil},
		"an old OpenEBS":         {sound + "  openebs: {version: 1.12.0}\n", []string{"openebs.version 1.12.0 "}},
		"cStor":                  {sound + "  openebs: {version: 4.5.1, isCstorEnabled: true}\n", []string{"openebs.isCstorEnabled true: "}},
		"cStor that is off":      {sound + "  openebs: {version: 4.5.1, isCstorEnabled: false}\n", nil},
		"an old Prometheus":      {sound + "  prometheus: {version: 0.59.0-40.0.2}\n", []string{"prometheus.version 0.59.0-40.0.2 "}},
		// replicatedhq/kURL#3465 made this version for Kubernetes 1.25
		"the oldest Prometheus":   {sound + "  prometheus: {version: 0.59.1-40.1.0}\n", nil},
		"a Prometheus, a line":    {sound + "  prometheus: {version: 0.58.x}\n", []string{"prometheus.version 0.58.x "}},
		"a Prometheus of 0.59":    {sound + "  prometheus: {version: 0.59.x}\n", nil},
		"a Prometheus":            {sound + "  prometheus: {version: 0.60.1-41.7.3, serviceType: NodePort}\n", nil},
		"a type of Service":       {sound + "  prometheus: {version: 0.60.1-41.7.3, serviceType: LoadBalancer}\n", []string{"prometheus.serviceType LoadBalancer: "}},
		"an old EKCO":             {sound + "  rook: {version: 1.19.7}\n  ekco: {version: 0.22.0}\n", []string{"ekco.version 0.22.0 does not go with rook.version 1.19.7: "}},
		"an old Velero":           {sound + "  velero: {version: 1.6.2}\n", []string{"velero.version 1.6.2 "}},
		"an old Contour":          {sound + "  contour: {version: 1.7.0}\n", []string{"contour.version 1.7.0 "}},
		"an old Calico":           {without("flannel") + "  calico: {version: 3.9.1}\n", []string{"calico.version 3.9.1 "}},
		"two distributions":       {sound + "  k3s: {version: v1.23.3+k3s1}\n", []string{"k3s.version v1.23.3+k3s1 does not go with kubernetes.version 1.36.3: "}},
		"IPv6, perhaps":           {sound + "  kurl: {ipv6: true}\n", nil},
		"IPv6 that is off":        {without("flannel") + "  weave: {version: 2.8.1}\n  kurl: {ipv6: false}\n", nil},
		"both, perhaps":           {sound + "  kurl: {dualStack: true}\n", nil},
		"not both":                {without("flannel") + "  antrea: {version: 1.2.1}\n  kurl: {dualStack: true}\n", []string{"kurl.dualStack true: no pod network here knows IPv4 and IPv6 at once"}},
		"no IPv6":                 {without("flannel") + "  weave: {version: 2.8.1}\n  kurl: {ipv6: true}\n", []string{"kurl.ipv6 true: no pod network here knows IPv6"}},
		"no object store":         {sound + "  kotsadm: {version: 1.117.3}\n", []string{"kotsadm.version 1.117.3: "}},
		"an object store":         {sound + "  kotsadm: {version: latest}\n  minio: {version: latest}\n", nil},
		"Rook's object store":     {sound + "  kotsadm: {version: latest}\n  rook: {version: 1.19.x}\n", nil},
		"none is needed":          {sound + "  kotsadm: {version: latest, disableS3: true}\n", nil},
		"perhaps somebody else's": {sound + "  kotsadm: {version: latest}\n  garage: {version: 1.0.0}\n", nil},
		"scaling to two nodes":    {sound + "  rook: {version: 1.19.7, minimumNodeCount: 2}\n", []string{"rook.minimumNodeCount 2: "}},
		"scaling to three nodes":  {sound + "  rook: {version: 1.19.7, minimumNodeCount: 3}\n  openebs: {version: 4.5.1}\n", nil},
		"no scaling":              {sound + "  rook: {version: 1.9.12, minimumNodeCount: 0}\n  openebs: {version: 3.5.0}\n", nil},
		"scaling with old add-ons": {sound + "  rook: {version: 1.11.6, minimumNodeCount: 3}\n  openebs: {version: 3.5.x}\n", []string{
			"rook.minimumNodeCount 3: ", "rook.minimumNodeCount 3 does not go with openebs.version 3.5.x: "}},
		"a network of services":       {without("kubernetes") + "  kubernetes: {version: 1.36.3, serviceCIDR: 'fde4:8dba:82e1:98e::/112'}\n", nil},
		"a length beyond IPv6's":      {without("kubernetes") + "  kubernetes: {version: 1.36.3, serviceCIDR: 'fde4:8dba:82e1:98e::/9999999'}\n", []string{"kubernetes.serviceCIDR fde4:8dba:82e1:98e::/9999999: it is not a network"}},
		"half a network":              {without("flannel") + "  flannel: {version: 0.28.7, podCIDR: 10.10.10.}\n", []string{"flannel.podCIDR 10.10.10.: it is not a network"}},
		"an address":                  {without("flannel") + "  weave: {version: 2.8.1, podCIDR: 39.1.2.3}\n", []string{"weave.podCIDR 39.1.2.3: it is not a network"}},
		"a length beyond IPv4's":      {without("flannel") + "  antrea: {version: 1.4.0, podCIDR: 10.0.0.0/33}\n", []string{"antrea.podCIDR 10.0.0.0/33: it is not a network"}},
		"numbers beyond an address's": {without("flannel") + "  antrea: {version: 1.4.0, podCIDR: 800.666.555.444/1024}\n", []string{"antrea.podCIDR 800.666.555.444/1024: it is not a network"}},
		"two networks":                {without("flannel") + "  flannel: {version: 0.28.7, podCIDR: '10.32.0.0/20,fd00:c00b:1::/56'}\n", nil},
		"no network":                  {without("flannel") + "  flannel: {version: 0.28.7, podCIDR: ''}\n", nil},
		"words for versions":          {sound + "  kotsadm: {version: nightly, disableS3: true}\n  rook: {version: alpha}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Check(installerOf(t, row.spec), nil)
			if len(got) != len(row.want) {
				t.Fatalf("got %v, want %v", got, row.want)
			}
			for n, f := range got {
				if !strings.HasPrefix(f.Message, row.want[n]) || f.Severity != diag.Error || f.Hint == "" || f.Pos.Line < 4 {
					t.Errorf("got %v, want %s", f, row.want[n])
				}
			}
		})
	}
}

// kURL's linter refuses these. A cluster may get a pod network or volumes elsewhere, and an add-on of Sealift's says that it requires a
// container runtime.
func TestLackingCapabilitiesAreReported(t *testing.T) {
	for spec, want := range map[string]string{
		"  kubernetes: {version: latest}\n  containerd: {version: latest}\n":                  "i:4:3: warning: kubernetes.version latest: nodes are not Ready without a pod network, and no add-on here is one (add flannel)",
		"  kubernetes: {version: 1.36.3}\n  weave: {version: latest}\n":                       "i:4:3: warning: kubernetes.version 1.36.3: it needs a container runtime, and no add-on here is one (add containerd)",
		"  kubernetes: {version: 1.36.3}\n  cilium: {version: 1.18.0}\n":                      "",
		"  containerd: {version: 2.2.6}\n":                                                    "",
		sound + "  registry: {version: 3.1.1}\n":                                              "i:7:3: warning: registry.version 3.1.1: it keeps images in an object store or a volume, and no add-on here has either (add openebs, minio or rook)",
		sound + "  registry: {version: 3.1.1}\n  minio: {version: latest}\n":                  "",
		sound + "  registry: {version: 3.1.1}\n  openebs: {version: latest}\n":                "",
		sound + "  registry: {version: 3.1.1}\n  longhorn: {version: latest}\n":               "",
		sound + "  registry: {version: 3.1.1}\n  local-path-provisioner: {version: 0.0.30}\n": "",
	} {
		var got []string
		for _, f := range Check(installerOf(t, spec), nil) {
			got = append(got, f.Error())
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: got %s, want %s", spec, got, want)
		}
	}
}

// If the packages are present, add-ons count by their declarations.
func TestRulesCountDeclaredCapabilities(t *testing.T) {
	i := installerOf(t, sound+"  kotsadm: {version: 1.117.3}\n  garage: {version: 1.0.0}\n  cilium: {version: 1.18.0}\n")
	metas := []Meta{{Name: "flannel", Declared: true, Provides: []string{PodNetwork}}, {Name: "cilium", Declared: true, Provides: []string{PodNetwork}}, {Name: "garage"}}
	switch got := Check(i, metas); {
	case len(got) != 2, got[1].Message != "flannel and cilium: a cluster has one pod network", !strings.HasPrefix(got[0].Error(), "i:7:3: error: kotsadm.version 1.117.3: "):
		t.Errorf("got %v", got)
	}
	metas[2] = Meta{Name: "garage", Declared: true, Provides: []string{ObjectStore}}
	if got := Check(i, metas); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	six := installerOf(t, sound+"  kurl: {ipv6: true}\n")
	if got := Check(six, []Meta{{Name: "flannel"}}); len(got) != 1 || !strings.Contains(got[0].Message, "knows IPv6") {
		t.Errorf("kURL's flannel: %v", got)
	}
	if got := Check(six, []Meta{{Name: "flannel", Declared: true, Provides: []string{PodNetwork, PodNetworkIPv6}}}); len(got) != 0 {
		t.Errorf("a flannel with IPv6: %v", got)
	}
	metas[0] = Meta{Name: "flannel", Declared: true} // no longer a pod network, despite its name
	if got := Check(i, metas); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// A rule that names what the Installer's table does not have would never hold.
func TestRulesNameExistingKeysAndOptions(t *testing.T) {
	values := installerOf(t, sound).Values()
	there := func(key, option string) {
		if _, listed := values[key]; !listed {
			t.Errorf("no key %s", key)
		}
		if _, listed := values[key][option]; option != "" && !listed {
			t.Errorf("no option %s.%s", key, option)
		}
	}
	for _, r := range rules() {
		there(r.key, r.option)
		if r.with != "" {
			there(r.with, "")
		}
		if r.why == "" || r.fix == "" {
			t.Errorf("%s: no reason or no way out", r.key)
		}
	}
	for _, n := range needs() {
		there(n.key, n.unless)
		there(n.key, n.option)
	}
}

// The hook of these versions counts the lines of its pod's conditions (replicatedhq/kURL#877), until replicatedhq/kots#3743.
func TestKotsadmWithFourPodConditionsIsReported(t *testing.T) {
	for version, warned := range map[string]bool{"1.24.2": false, "1.25.0": true, "1.86.0": true, "1.95.0": true, "1.86.x": true, "1.97.0": false, "1.117.3": false, "latest": false, "nightly": false} {
		i := installerOf(t, sound+"  kotsadm: {version: "+version+", disableS3: true}\n")
		got := Check(i, nil)
		if (len(got) == 1) != warned || diag.Err(got) != nil || warned && !strings.HasPrefix(got[0].Error(), "i:7:3: warning: kotsadm.version "+version+" does not go with kubernetes.version 1.36.3: ") {
			t.Errorf("%s: %v", version, got)
		}
	}
}

func TestVersionsOfAddOnsAreChecked(t *testing.T) {
	findings := CheckVersions(map[string]string{"cert-manager": "1.4.0", "kubernetes": "1.36.3", "containerd": "2.2.1", "flannel": "0.26.7"})
	if len(findings) != 1 || !strings.Contains(findings[0].Error(), "certManager.version 1.4.0 does not go with kubernetes.version 1.36.3") {
		t.Errorf("got %v", findings)
	}
}
