package renewal

import "testing"

func TestAWorkerIsNotCalledAsTheAPI(t *testing.T) {
	o := owners{endpoint: "api.example.com", controlPlanes: []string{"host-1", "kubernetes"}}
	for name, fine := range map[string]bool{
		"worker-1": true, "worker.example.com": true, "svc": true, "a.svc": true, "host-1": true, "kubernetes": true,
		"api.example.com": false, "kubernetes.default": false, "kubernetes.default.svc": false, "web.shop.svc.cluster.local": false,
	} {
		if err := o.checkName(name); (err == nil) != fine {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.controlPlanes = append(o.controlPlanes, "api.example.com")
	if err := o.checkName("api.example.com"); err != nil {
		t.Errorf("the only control plane has the name of the API: %v", err)
	}
}
