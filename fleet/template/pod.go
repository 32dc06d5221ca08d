package template

import (
	"errors"
	"slices"
	"strings"

	"github.com/sealift/sealift/fleet/ocm"
)

// podPaths has the paths of the pod templates by kind.
var podPaths = map[string][]string{
	"Deployment":            {"spec", "template"},
	"DaemonSet":             {"spec", "template"},
	"StatefulSet":           {"spec", "template"},
	"ReplicaSet":            {"spec", "template"},
	"ReplicationController": {"spec", "template"},
	"Job":                   {"spec", "template"},
	"CronJob":               {"spec", "jobTemplate", "spec", "template"},
	"PodTemplate":           {"template"},
	"Pod":                   {},
}

// pods returns the specs of the pods that an object, or a list of objects, makes.
func pods(m map[string]any) []map[string]any {
	kind, _ := m["kind"].(string)
	path, known := podPaths[kind]
	if !known {
		var found []map[string]any
		for _, item := range objects(m["items"]) {
			found = append(found, pods(item)...)
		}
		return found
	}
	o := m
	for _, key := range path {
		o, _ = o[key].(map[string]any)
	}
	if spec, ok := o["spec"].(map[string]any); ok {
		return []map[string]any{spec}
	}
	return nil
}

func objects(list any) []map[string]any {
	var found []map[string]any
	all, _ := list.([]any)
	for _, item := range all {
		if o, ok := item.(map[string]any); ok {
			found = append(found, o)
		}
	}
	return found
}

func containers(pod map[string]any, lists ...string) []map[string]any {
	var found []map[string]any
	for _, list := range lists {
		found = append(found, objects(pod[list])...)
	}
	return found
}

// decorate applies the template's and the configuration's settings to Deployments and DaemonSets (O-34).
func decorate(m map[string]any, in Input, env []ocm.Variable) error {
	kind, _ := m["kind"].(string)
	if kind != "Deployment" && kind != "DaemonSet" {
		return nil
	}
	metadata, _ := m["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	proxy := proxyEnv(in.Config.ProxyConfig)
	for _, pod := range pods(m) {
		mounts, err := mountSecrets(pod, in)
		if err != nil {
			return err
		}
		if len(in.Config.ProxyConfig.CABundle) > 0 && len(proxy) > 0 {
			appendTo(pod, "volumes", map[string]any{"name": "proxy-ca-bundle", "configMap": map[string]any{"name": in.AddOn + "-proxy-ca"}})
			mounts = append(mounts, map[string]any{"name": "proxy-ca-bundle", "mountPath": "/managed/proxy-ca"})
		}
		if p := in.Config.NodePlacement; p != nil {
			if p.NodeSelector != nil {
				pod["nodeSelector"] = p.NodeSelector
			}
			if p.Tolerations != nil {
				pod["tolerations"] = p.Tolerations
			}
		}
		for _, c := range containers(pod, "containers") {
			for _, v := range append(slices.Clip(env), proxy...) {
				appendTo(c, "env", map[string]any{"name": v.Name, "value": v.Value})
			}
			appendTo(c, "volumeMounts", mounts...)
			container, _ := c["name"].(string)
			id := strings.ToLower(kind) + "s:" + name + ":" + container
			if r := requirement(in.Config.ResourceRequirements, id); r != nil {
				c["resources"] = r
			}
		}
	}
	return nil
}

func appendTo(o map[string]any, key string, items ...any) {
	list, _ := o[key].([]any)
	if len(items) > 0 {
		o[key] = append(list, items...)
	}
}

// mountSecrets adds the volumes of the registrations and returns their mounts.
func mountSecrets(pod map[string]any, in Input) (mounts []any, err error) {
	add := func(volume, secret, path string) {
		appendTo(pod, "volumes", map[string]any{"name": volume, "secret": map[string]any{"secretName": secret}})
		mounts = append(mounts, map[string]any{"name": volume, "mountPath": "/managed/" + path})
	}
	for _, r := range in.Template.Registration {
		switch {
		case r.Type == ocm.KubeClient:
			add("hub-kubeconfig", in.AddOn+"-hub-kubeconfig", "hub-kubeconfig")
		case r.Type != ocm.CustomSigner:
		case r.CustomSigner == nil:
			return nil, errors.New("a registration of type CustomSigner has no customSigner")
		default:
			signer := strings.ReplaceAll(r.CustomSigner.SignerName, "/", "-")
			add("cert-"+strings.ReplaceAll(signer, ".", "-"), in.AddOn+"-"+signer+"-client-cert", signer)
		}
	}
	return mounts, nil
}

// proxyEnv returns the proxies in both spellings, and the path of the CA.
func proxyEnv(p ocm.ProxyConfig) []ocm.Variable {
	var env []ocm.Variable
	for _, v := range []ocm.Variable{{Name: "HTTP_PROXY", Value: p.HTTPProxy}, {Name: "HTTPS_PROXY", Value: p.HTTPSProxy}, {Name: "NO_PROXY", Value: p.NoProxy}} {
		if v.Value != "" {
			env = append(env, v, ocm.Variable{Name: strings.ToLower(v.Name), Value: v.Value})
		}
	}
	if len(env) > 0 && len(p.CABundle) > 0 {
		env = append(env, ocm.Variable{Name: "CA_BUNDLE_FILE_PATH", Value: "/managed/proxy-ca/ca-bundle.crt"})
	}
	return env
}

// requirement returns the resources of a container. The last one that matches wins.
func requirement(all []ocm.ContainerRequirement, id string) map[string]any {
	var found map[string]any
	for _, r := range all {
		if matches(r.ContainerID, id) {
			found = r.Resources
		}
	}
	return found
}

// matches compares the three parts of an ID. A part of the pattern that is * matches any.
func matches(pattern, id string) bool {
	want, has := strings.SplitN(pattern, ":", 3), strings.SplitN(id, ":", 3)
	for i := range has {
		if len(want) != len(has) || want[i] != "*" && want[i] != has[i] {
			return false
		}
	}
	return true
}
