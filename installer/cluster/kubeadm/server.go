package kubeadm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// EditServer changes the API server section of a ClusterConfiguration. It keeps all other fields, but no comments. Without a change,
// it returns the text that it got.
func EditServer(text string, edit func(*Server) error) (string, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return "", err
	}
	if config["kind"] != ConfigKey {
		return "", fmt.Errorf("it is of kind %v", config["kind"])
	}
	version, _ := config["apiVersion"].(string)
	s := &Server{argumentMap: strings.HasSuffix(version, "/v1beta3")}
	if s.fields, _ = config["apiServer"].(map[string]any); s.fields == nil {
		s.fields = map[string]any{}
	}
	if err := edit(s); err != nil || !s.changed {
		return text, err
	}
	config["apiServer"] = s.fields
	out, err := yaml.Marshal(config)
	return string(out), err
}

// Server is the apiServer of a ClusterConfiguration.
type Server struct {
	fields      map[string]any
	argumentMap bool // extraArgs are a map from name to value
	changed     bool
}

// Name adds a name or an address to the certificates of API servers, and drops one; either may be empty.
func (s *Server) Name(add, drop string) {
	had, _ := s.fields["certSANs"].([]any)
	names := slices.DeleteFunc(slices.Clone(had), func(name any) bool { return drop != "" && name == drop })
	if add != "" && !slices.Contains(names, any(add)) {
		names = append(names, add)
	}
	if slices.Equal(had, names) {
		return
	}
	s.changed = true
	if s.fields["certSANs"] = names; len(names) == 0 {
		delete(s.fields, "certSANs")
	}
}

// AddArgument adds an argument to API servers, unless they have one of that name.
func (s *Server) AddArgument(name, value string) error {
	if !s.argumentMap {
		return s.add("extraArgs", map[string]any{"name": name, "value": value})
	}
	all, isMap := s.fields["extraArgs"].(map[string]any)
	if s.fields["extraArgs"] != nil && !isMap {
		return errors.New("its apiServer.extraArgs is not a map, as kubeadm has it in v1beta3")
	}
	if _, ok := all[name]; ok {
		return nil
	}
	if all == nil {
		all = map[string]any{}
	}
	all[name], s.fields["extraArgs"], s.changed = value, all, true
	return nil
}

// AddFolder mounts a folder of the host into API servers, to be read, unless they have a volume of that name.
func (s *Server) AddFolder(name, path string) error {
	return s.add("extraVolumes", map[string]any{"name": name, "hostPath": path, "mountPath": path, "pathType": "Directory", "readOnly": true})
}

// add adds an entry to a list, unless it has one of that name.
func (s *Server) add(list string, entry map[string]any) error {
	all, isList := s.fields[list].([]any)
	if s.fields[list] != nil && !isList {
		return fmt.Errorf("its apiServer.%s is not a list, as kubeadm has had it since v1beta4", list)
	}
	if !slices.ContainsFunc(all, func(one any) bool { of, ok := one.(map[string]any); return ok && of["name"] == entry["name"] }) {
		s.fields[list], s.changed = append(all, entry), true
	}
	return nil
}
