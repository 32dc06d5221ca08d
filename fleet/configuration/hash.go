package configuration

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/sha256hex"
)

// HashAnnotation is the annotation of a ManifestWork that has the hashes of its configurations (O-17).
const HashAnnotation = "open-cluster-management.io/config-spec-hash"

// SpecHash returns the hash of a configuration object: the sha256, in hex, of its JSON without apiVersion, kind, metadata
// and status (O-13).
func SpecHash(object map[string]any) (string, error) {
	content := maps.Clone(object)
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(content, field)
	}
	if content == nil {
		content = map[string]any{}
	}
	return hash(content)
}

// TemplateHash returns the hash of an AddOnTemplate. OCM hashes its Go type, in which agentSpec always has a workload, and
// registration is null if there is none.
func TemplateHash(template map[string]any) (string, error) {
	spec, _ := template["spec"].(map[string]any)
	spec = maps.Clone(spec)
	if spec == nil {
		spec = map[string]any{"addonName": ""}
	}
	agent, _ := spec["agentSpec"].(map[string]any)
	agent = maps.Clone(agent)
	if agent == nil {
		agent = map[string]any{}
	}
	if agent["workload"] == nil {
		agent["workload"] = map[string]any{}
	}
	spec["agentSpec"] = agent
	if _, found := spec["registration"]; !found {
		spec["registration"] = nil
	}
	return hash(map[string]any{"spec": spec})
}

func hash(content any) (string, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("hash a configuration: %w", err)
	}
	return sha256hex.Of(text), nil
}

// Annotate returns the value of HashAnnotation.
func Annotate(refs []ocm.ConfigReference) (string, error) {
	hashes := make(map[string]string)
	for _, ref := range refs {
		if d := ref.DesiredConfig; d != nil {
			resource := ref.Resource
			if ref.Group != "" {
				resource += "." + ref.Group
			}
			hashes[resource+"/"+d.Namespace+"/"+d.Name] = d.SpecHash
		}
	}
	text, err := json.Marshal(hashes)
	return string(text), err
}
