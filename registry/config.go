package registry

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// hosts lists the registries that images come from, such as registry.k8s.io.
func hosts(images []Image, t Target) (names []string) {
	for _, i := range images {
		switch i.Kind {
		case KindChart, KindPackages, KindFiles: // people tell Helm and ORAS where they are
			continue
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(i.Target, t.Host+"/"), t.Prefix)
		name, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		host, _, _ := strings.Cut(i.Ref, "/")
		if component(host) != name { // a short name
			host = name
		}
		names = append(names, host)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Configuration returns the files with which a cluster finds the images, by their paths: hosts.toml of containerd for each registry,
// OpenShift's mirror sets, and the registries.yaml of k3s and RKE2. ca are the certificates that the registry needs, or empty.
func Configuration(s Summary, t Target, ca string) (map[string]string, error) {
	files := make(map[string]string)
	address := t.url().Base()
	mirrors := make(map[string]any)
	var byDigest, byTag []any
	for _, host := range hosts(s.Images, t) {
		// Nothing but the mirror is asked: behind the air gap, the registry itself does not answer.
		text := fmt.Sprintf("server = %q\n\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n  override_path = true\n", mirrorURL(address, t, host), mirrorURL(address, t, host))
		if ca != "" {
			text += "  ca = \"ca.crt\"\n"
			files[path.Join("certs.d", host, "ca.crt")] = ca
		}
		files[path.Join("certs.d", host, "hosts.toml")] = text
		mirrors[host] = map[string]any{"endpoint": []string{address}, "rewrite": map[string]string{"^(.*)$": t.path(host) + "/$1"}}
		entry := map[string]any{"source": host, "mirrors": []string{t.repository(host)}, "mirrorSourcePolicy": "NeverContactSource"}
		byDigest, byTag = append(byDigest, entry), append(byTag, entry)
	}
	k3s := map[string]any{"mirrors": mirrors}
	if ca != "" {
		k3s["configs"] = map[string]any{t.Host: map[string]any{"tls": map[string]string{"ca_file": "/etc/rancher/k3s/registry-ca.crt"}}}
		files["k3s/registry-ca.crt"] = ca
	}
	text, err := yaml.Marshal(k3s)
	if err != nil {
		return nil, err
	}
	files["k3s/registries.yaml"] = string(text)
	var documents []string
	for _, set := range []struct {
		kind, field string
		entries     []any
	}{{"ImageDigestMirrorSet", "imageDigestMirrors", byDigest}, {"ImageTagMirrorSet", "imageTagMirrors", byTag}} {
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": "config.openshift.io/v1", "kind": set.kind, "metadata": map[string]string{"name": "sealift"}, "spec": map[string]any{set.field: set.entries},
		})
		if err != nil {
			return nil, err
		}
		documents = append(documents, string(text))
	}
	files["openshift/mirrors.yaml"] = strings.Join(documents, "---\n")
	return files, nil
}

func mirrorURL(address string, t Target, host string) string {
	return address + "/v2/" + t.path(host)
}
