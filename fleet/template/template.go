// Package template renders AddOnTemplates for a cluster (O-33, O-34, X-27 to X-29). It works on plain JSON, so it keeps
// fields that it does not know.
//
// {{NAME}} in any text of a manifest is replaced by a variable. Deployments and DaemonSets get the environment, the
// volumes, the placement, the proxy and the resources. Images are rewritten in every kind that has pods, since a cluster
// behind an air gap reaches no other registry.
package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/sandbox"
)

const (
	hubKubeconfig = "HUB_KUBECONFIG"
	clusterName   = "CLUSTER_NAME"
	namespaceName = "INSTALL_NAMESPACE"

	// defaultNamespace is where agents live unless a configuration says otherwise.
	defaultNamespace = "open-cluster-management-agent-addon"
)

// Input has everything that an agent's manifests depend on.
type Input struct {
	AddOn, Cluster string
	// ClusterAnnotations are the ManagedCluster's.
	ClusterAnnotations map[string]string
	Template           ocm.AddOnTemplateSpec
	Config             ocm.AddOnDeploymentConfigSpec
	// Digests are those of images, as returned by Named. An image without one keeps its name from the template.
	Digests map[string]string
}

// maxSize bounds the manifests of an agent, in bytes. A template and a configuration have at most 1.5 MB each in the API, but every use of
// a variable repeats its value, and every pod repeats the configuration.
const maxSize = 16 << 20

func (in Input) exceeded() error {
	return &sandbox.LimitError{Name: "AddOnTemplate of " + in.AddOn, Limit: fmt.Sprintf("%d MiB of manifests", maxSize>>20)}
}

// Render returns the manifests of the agent. It does not change its arguments.
func Render(in Input) ([]map[string]any, error) {
	mirrors, err := Mirrors(in.ClusterAnnotations, in.Config.Registries)
	if err != nil {
		return nil, err
	}
	env, variables := Variables(in)
	manifests, err := in.substituted(variables)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(in.Config)
	if err != nil {
		return nil, err
	}
	if len(config)*len(manifests) > maxSize {
		return nil, in.exceeded()
	}
	for i, manifest := range manifests {
		if err := decorate(manifest, in, env); err != nil {
			return nil, fmt.Errorf("AddOnTemplate of %s: manifest %d: %w", in.AddOn, i, err)
		}
		pin(manifest, in.Digests)
		RewriteImages(manifest, mirrors)
	}
	if len(in.Config.ProxyConfig.CABundle) > 0 {
		manifests = append(manifests, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": in.AddOn + "-proxy-ca", "namespace": defaultNamespace},
			"data":     map[string]any{"ca-bundle.crt": string(in.Config.ProxyConfig.CABundle)},
		})
	}
	if ns := in.Config.AgentInstallNamespace; ns != "" {
		for _, m := range manifests {
			relocate(m, ns)
		}
	}
	return manifests, nil
}

// Named returns the images of the agent, sorted, as the template and the configuration name them.
func Named(in Input) (images []string, err error) {
	_, variables := Variables(in)
	manifests, err := in.substituted(variables)
	if err != nil {
		return nil, err
	}
	for _, m := range manifests {
		images = append(images, Images(m)...)
	}
	slices.Sort(images)
	return slices.Compact(images), nil
}

// substituted returns copies of the template's manifests with the values of variables.
func (in Input) substituted(variables map[string]string) ([]map[string]any, error) {
	var manifests []map[string]any
	s := substitution{variables: variables, left: maxSize}
	for i, m := range in.Template.AgentSpec.Workload.Manifests {
		o, err := s.of(runtime.DeepCopyJSONValue(m))
		if s.left < 0 {
			return nil, in.exceeded()
		}
		if err != nil {
			return nil, fmt.Errorf("AddOnTemplate of %s: manifest %d: %w", in.AddOn, i, err)
		}
		manifest, _ := o.(map[string]any)
		if manifest == nil {
			return nil, fmt.Errorf("AddOnTemplate of %s: manifest %d is empty", in.AddOn, i)
		}
		count(manifest)
		manifests = append(manifests, manifest)
	}
	return manifests, nil
}

// count makes a number of spec.replicas in a text: variables are texts, and the API takes none there.
func count(manifest map[string]any) {
	spec, _ := manifest["spec"].(map[string]any)
	text, ok := spec["replicas"].(string)
	if n, err := strconv.ParseInt(text, 10, 32); ok && err == nil && (manifest["kind"] == "Deployment" || manifest["kind"] == "StatefulSet") {
		spec["replicas"] = n
	}
}

// InstallNamespace returns the namespace of the agent: that of the configuration, or of the first Deployment or DaemonSet
// among its manifests, or the default.
func InstallNamespace(config ocm.AddOnDeploymentConfigSpec, manifests []map[string]any) string {
	if config.AgentInstallNamespace != "" {
		return config.AgentInstallNamespace
	}
	for _, m := range manifests {
		if m["kind"] == "Deployment" || m["kind"] == "DaemonSet" {
			metadata, _ := m["metadata"].(map[string]any)
			if ns, _ := metadata["namespace"].(string); ns != "" {
				return ns
			}
		}
	}
	return defaultNamespace
}

// Variables returns the environment of agents in order, and what {{NAME}} stands for. A configuration may set
// HUB_KUBECONFIG, but neither CLUSTER_NAME nor INSTALL_NAMESPACE.
func Variables(in Input) (env []ocm.Variable, all map[string]string) {
	all = make(map[string]string)
	names := []string{clusterName}
	if len(in.Template.Registration) > 0 {
		all[hubKubeconfig] = "/managed/hub-kubeconfig/kubeconfig"
		names = []string{hubKubeconfig, clusterName}
	}
	for _, v := range in.Config.CustomizedVariables {
		all[v.Name] = v.Value
	}
	all[clusterName] = in.Cluster
	if ns := in.Config.AgentInstallNamespace; ns != "" {
		all[namespaceName] = ns
		names = append(names, namespaceName)
	}
	for _, name := range names {
		env = append(env, ocm.Variable{Name: name, Value: all[name]})
	}
	return env, all
}

// substitution replaces {{NAME}} in all texts and keys. An unknown name is empty. Values are not substituted again.
type substitution struct {
	variables map[string]string
	left      int // bytes that texts may still have; it ends below zero
}

var errLarge = errors.New("the manifests are too large")

func (s *substitution) of(value any) (any, error) {
	switch v := value.(type) {
	case string:
		return s.text(v)
	case []any:
		for i, item := range v {
			var err error
			if v[i], err = s.of(item); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			name, err := s.text(key)
			if err != nil {
				return nil, err
			}
			if out[name], err = s.of(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return value, nil
}

func (s *substitution) text(text string) (string, error) {
	var out strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "{{")
		out.WriteString(before)
		if s.left -= len(before); !found {
			return out.String(), nil
		}
		name, after, found := strings.Cut(after, "}}")
		if !found {
			return "", fmt.Errorf("%q has {{ without }}", text)
		}
		value := s.variables[name]
		if s.left -= len(value); s.left < 0 {
			return "", errLarge
		}
		out.WriteString(value)
		rest = after
	}
}

// relocate moves an object to a namespace: where one is set, in subjects of bindings, and in the name of a Namespace.
func relocate(m map[string]any, namespace string) {
	metadata, _ := m["metadata"].(map[string]any)
	if ns, _ := metadata["namespace"].(string); ns != "" {
		metadata["namespace"] = namespace
	}
	switch m["kind"] {
	case "Namespace":
		if metadata != nil {
			metadata["name"] = namespace
		}
	case "RoleBinding", "ClusterRoleBinding":
		subjects, _ := m["subjects"].([]any)
		for _, s := range subjects {
			if subject, ok := s.(map[string]any); ok {
				subject["namespace"] = namespace
			}
		}
	}
}
