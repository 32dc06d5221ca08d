package references

import (
	"strings"
	"testing"
)

func FuzzScan(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}")
	f.Add("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, spec: {containers: [{image: a}]}}]")
	f.Add("apiVersion: kubeadm.k8s.io/v1\nkind: ClusterConfiguration\n---\napiVersion: v1\nkind: ConfigMap\ndata: {a: \"image:\\n\"}")
	f.Add("apiVersion: x\nkind: y\nz: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		c := &checker{dir: "addons/demo/1.0", version: "1.0"}
		c.scan([]byte(text), source{name: "a.yaml"})
		c.judge()
		for _, u := range c.uses {
			if u.where == "" || !strings.Contains(text, "kind") {
				t.Errorf("%+v out of %q", u, text)
			}
		}
	})
}
