package kubeadm

import (
	"slices"

	"sigs.k8s.io/yaml"
)

// StaticPods returns the names of kubeadm's pods on a control plane, in the order in which they depend on each other. Their programs,
// their containers and their images have the same names. No other node runs one of them.
func StaticPods() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
}

// DNS is the name of the DNS server that kubeadm adds to a cluster. Its image has the same name. Its pods start when a node is Ready, which is
// after the pods of the network started.
const DNS = "coredns"

// Pod is the manifest of a static pod, with all its fields. It is read and written as JSON; comments are lost.
type Pod map[string]any

// ParsePod reads a manifest. One without content is a Pod without a container.
func ParsePod(manifest []byte) (Pod, error) {
	p := Pod{}
	err := yaml.Unmarshal(manifest, &p)
	return p, err
}

// container is the one named like the pod, as in kubeadm, and else the first; nil if there is none.
func (p Pod) container() map[string]any {
	metadata, _ := p["metadata"].(map[string]any)
	spec, _ := p["spec"].(map[string]any)
	list, _ := spec["containers"].([]any)
	at := max(0, slices.IndexFunc(list, func(one any) bool {
		container, _ := one.(map[string]any)
		return container["name"] != nil && container["name"] == metadata["name"]
	}))
	if at >= len(list) {
		return nil
	}
	container, _ := list[at].(map[string]any)
	return container
}

// Image is the image of the pod's program; "" if there is none.
func (p Pod) Image() string {
	image, _ := p.container()["image"].(string)
	return image
}

// Args are the words of the pod's program, whether they are its command or arguments.
func (p Pod) Args() Args { return slices.Concat(p.words("command"), p.words("args")) }

func (p Pod) words(field string) (all Args) {
	list, _ := p.container()[field].([]any)
	for _, one := range list {
		word, _ := one.(string)
		all = append(all, word)
	}
	return all
}

// Replace sets another value of a flag of the pod's program. It reports whether the program has the flag; else nothing changes. Of a
// pod with a command and arguments, both become the command.
func (p Pod) Replace(name, value string) bool {
	words := p.Args()
	if _, ok := words.Get(name); !ok {
		return false
	}
	var list []any
	for _, word := range words.With(name, value) {
		list = append(list, word)
	}
	container := p.container()
	if len(p.words("command")) == 0 {
		container["args"] = list
		return true
	}
	container["command"] = list
	delete(container, "args")
	return true
}
