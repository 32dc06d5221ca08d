//go:build grid

package airgap_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealift/sealift/testgrid/scenario"
)

// looksOfNode lists what an install creates on a host besides what looks has: its state, and the images.
const looksOfNode = scenario.StateScript + `
find /var/lib/sealift/addons /var/lib/sealift/kustomize -type f -exec sha256sum {} + | sed 's/^/kept /'
ctr -n k8s.io images list -q | grep -v '^sha256:' | sed 's/^/image /'
`

// settled is the state in which an install ends: packages, files, units, images and the objects of the cluster, without what
// differs between any two installs: keys and certificates, what runs at this moment, and names that are made up.
func (n node) settled() []string {
	n.t.Helper()
	var lines []string
	for line := range strings.Lines(n.must(looksOfNode)) {
		line = strings.TrimSpace(line)
		volatile := slices.ContainsFunc([]string{"link veth", "mount ", "route ", "running ", "time="}, func(p string) bool { return strings.HasPrefix(line, p) }) ||
			strings.HasPrefix(line, "content ") && strings.Contains(line, " /etc/kubernetes/") ||
			slices.ContainsFunc([]string{"/root/.kube", "kubeadm.yaml", "/kustomize/kubeadm/", " transient"}, func(p string) bool { return strings.Contains(line, p) })
		if !volatile {
			lines = append(lines, line)
		}
	}
	for _, object := range n.objects() {
		lines = append(lines, "object "+object)
	}
	slices.Sort(lines)
	return lines
}

// kinds are those whose objects have fixed names.
const kinds = "namespaces,deployments.apps,daemonsets.apps,services,configmaps,secrets,serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings," +
	"storageclasses,apiservices,priorityclasses,customresourcedefinitions,nodes"

func (n node) objects() (found []string) {
	n.t.Helper()
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(n.must(kubectl+"get -A -o json "+kinds)), &list); err != nil {
		n.t.Fatal(err)
	}
	for _, object := range list.Items {
		metadata := field(object, "metadata")
		name := fmt.Sprint(object["kind"], " ", metadata["namespace"], "/", metadata["name"])
		// tokens for hosts that join, with their Secrets: printing the join commands has made some
		if strings.HasPrefix(name, "Secret ") && strings.Contains(name, "bootstrap-token-") || strings.HasSuffix(name, "kubeadm-certs") {
			continue
		}
		for _, volatile := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
			delete(metadata, volatile)
		}
		// writes of controllers and clocks, and the agent's report on a node's disk
		maps.DeleteFunc(field(metadata, "annotations"), func(key string, _ any) bool { return !strings.Contains(key, "sealift") || key == "sealift.dev/agent" })
		delete(object, "status")
		spec := field(object, "spec")
		for _, volatile := range []string{"clusterIP", "clusterIPs", "caBundle", "podCIDR", "podCIDRs"} {
			delete(spec, volatile)
		}
		switch object["kind"] {
		case "Secret", "ConfigMap": // certificates and counters are among their values, and a token's name among the keys
			data := field(object, "data")
			maps.DeleteFunc(data, func(key string, _ any) bool { return strings.HasPrefix(key, "jws-kubeconfig-") })
			object["data"] = slices.Sorted(maps.Keys(data))
		}
		text, err := json.Marshal(object)
		if err != nil {
			n.t.Fatal(err)
		}
		found = append(found, name+" "+string(text))
	}
	return found
}

// field is an optional map below an object.
func field(object map[string]any, name string) map[string]any {
	m, _ := object[name].(map[string]any)
	return m
}
