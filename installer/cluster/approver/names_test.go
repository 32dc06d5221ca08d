package approver

import "testing"

func TestWorkerIsNotNamedAsAPI(t *testing.T) {
	c := newClaims()
	c.add("the endpoint of the API", "https://API.example.com.:6443", "10.0.0.9:6443", "[fd00::9]:6443")
	c.add("a name of the API", "*.apps.example.com", "10.0.0.10", "")
	c.controlPlane("host-1")
	c.controlPlane("host-2.corp.example")
	c.domain("k8s.corp.example")
	for name, free := range map[string]bool{
		"worker-1": true, "worker.example.com": true, "svc": true, "a.svc": true, "host-10": true, "host-3.corp.example": true, "10.0.0.8": true, "fd00::8": true,
		"my.localhost.example": true, "apps.example.com": true, "a.b.apps.example.com": true,
		"api.example.com": false, "API.Example.COM.": false, "kubernetes": false, "kubernetes.default": false, "kubernetes.default.svc": false, "web.shop.svc.cluster.local": false,
		"x.cluster.local": false, "x.k8s.corp.example": false, "any.apps.example.com": false,
		"10.0.0.9": false, "::ffff:10.0.0.9": false, "::ffff:a00:9": false, "fd00::9": false, "fd00:0:0::9": false, "FD00::9": false, "fd00::9%eth0": false, "10.0.0.10": false,
		"localhost": false, "localhost.localdomain": false, "a.localhost": false, "127.0.0.1": false, "127.8.8.8": false, "::1": false, "::ffff:127.0.0.1": false, "0.0.0.0": false,
		"host-1": false, "HOST-1": false, "host-1.": false, "host-1.corp.example": false, "host-2": false, "host-2.corp.example": false, "host-2.corp": false,
	} {
		if what, taken := c.name(name); taken == free {
			t.Errorf("%s: %q, %v", name, what, taken)
		}
	}
}
