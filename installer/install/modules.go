package install

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/kube/render"
)

// modulesVariable lists the bundle's modules for hooks. A hook that reads it runs again when one of them changes.
const modulesVariable = "SEALIFT_MODULES"

// Where a Deployment has modules, and the annotation of its Pods that changes with them.
const (
	modulesFolder     = "/modules"
	modulesAnnotation = "sealift.dev/modules"
)

// describedAddOn is an add-on in modulesVariable and hooklessState.
type describedAddOn struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Index   string `json:"index"`   // of its package
	Options string `json:"options"` // digest
}

// modules are the add-ons that are modules of addon-operator.
func (c *contents) modules() (all []addOn) {
	for _, a := range c.addOns {
		if a.meta.Module {
			all = append(all, a)
		}
	}
	return all
}

func describe(addOns []addOn) string {
	all := []describedAddOn{}
	for _, a := range addOns {
		all = append(all, describedAddOn{a.name(), a.info.Version, a.info.Index, a.options})
	}
	text, _ := json.Marshal(all) // of strings: cannot fail
	return string(text)
}

// giveModules passes the modules of the bundle to an operator. Its arguments are the names of the operator's ConfigMap, of its
// Deployment and the container in it, and of its ClusterRole for definitions, and the file for patches of the latter two.
func (j *job) giveModules(_ context.Context, args []string, _ io.Writer) error {
	if len(args) != 4 {
		return fmt.Errorf("modules: %d arguments given, 4 wanted", len(args))
	}
	deployment, err := j.mountModules(args[0], args[1])
	if err != nil {
		return err
	}
	role, err := j.allowDefinitions(args[2])
	if err != nil {
		return err
	}
	var text []byte
	for _, patch := range []map[string]any{deployment, role} {
		one, err := yaml.Marshal(patch)
		if err != nil {
			return err
		}
		text = append(append(text, "---\n"...), one...)
	}
	return files.WriteMode(args[3], 0o600, text) // options may be secrets
}

// allowDefinitions is a patch of a ClusterRole, which may update the CustomResourceDefinitions of the modules and no others.
func (j *job) allowDefinitions(role string) (map[string]any, error) {
	names := map[string]bool{}
	for _, m := range j.modules() {
		files, err := helm.DefinitionFiles(filepath.Join(j.options.Root, m.info.Dir()), helm.DefinitionPrefixes)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := regularfile.ReadFile(file)
			if err != nil {
				return nil, err
			}
			objects, err := render.Decode(bytes.NewReader(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			for _, o := range objects {
				names[o.GetName()] = true
			}
		}
	}
	rules := []any{}
	if len(names) > 0 { // a rule without names holds for all
		rules = append(rules, map[string]any{"apiGroups": []string{"apiextensions.k8s.io"}, "resources": []string{"customresourcedefinitions"},
			"verbs": []string{"update"}, "resourceNames": slices.Sorted(maps.Keys(names))})
	}
	return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": role}, "rules": rules}, nil
}

// mountModules is a patch of a Deployment. Every control plane has unpacked the folders. Without one of the folders, the Pod
// does not start: an operator without a module would remove the module's objects.
func (j *job) mountModules(configMap, name string) (map[string]any, error) {
	options, err := cluster.Modules{ConfigMap: configMap, Sections: j.moduleSections()}.Annotations()
	if err != nil {
		return nil, err
	}
	volumes, mounts := []any{}, []any{}
	var indexes []string
	for n, m := range j.modules() {
		volume := fmt.Sprintf("module-%d", n)
		volumes = append(volumes, map[string]any{
			"name": volume, "hostPath": map[string]any{"path": filepath.Join(j.options.Root, m.info.Dir()), "type": "Directory"},
		})
		mounts = append(mounts, map[string]any{"name": volume, "mountPath": path.Join(modulesFolder, m.name()), "readOnly": true})
		indexes = append(indexes, m.info.Index)
	}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "annotations": options},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{modulesAnnotation: lifecycle.Digest(indexes)}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": name, "volumeMounts": mounts}}, "volumes": volumes},
		}},
	}, nil
}

// moduleSections are the Installer's settings of modules, by keys of the operator's ConfigMap: a flag that enables each of
// them, and its options.
func (c *contents) moduleSections() map[string]any {
	sections := map[string]any{}
	for _, m := range c.modules() {
		key := helm.ModuleKey(m.name())
		sections[key+helm.EnabledSuffix] = true
		options := map[string]any{}
		for name, value := range c.spec.AddOn(m.name()).Options {
			if name != "s3Override" { // the Installer's own
				options[name] = value
			}
		}
		if len(options) > 0 {
			sections[key] = options
		}
	}
	return sections
}
