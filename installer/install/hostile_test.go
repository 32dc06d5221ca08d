package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/spec"
)

// field is one that an Installer may have, from its schema.
type field struct {
	section, key string
	kind         string // string, list or commands
}

// fieldsOfText reads every field out of the schema that takes text, so that none is forgotten here.
func fieldsOfText(t *testing.T) (fields []field, addOns []string) {
	t.Helper()
	var schema struct {
		Defs map[string]struct {
			Required   []string
			Properties map[string]struct {
				Ref        string `json:"$ref"`
				Type       any
				Items      struct{ Type any }
				Deprecated bool // another spelling of an option
			}
		} `json:"$defs"`
	}
	text, err := spec.Schema()
	if err == nil {
		err = json.Unmarshal(text, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	for section, def := range schema.Defs {
		if slices.Contains([]string{"version", "addOn"}, section) {
			continue
		}
		if slices.Contains(def.Required, "version") {
			addOns = append(addOns, section)
		}
		for key, p := range def.Properties {
			kind := ""
			switch {
			case p.Deprecated:
				continue
			case p.Ref != "" || strings.Contains(fmt.Sprint(p.Type), "string"):
				kind = "string"
			case strings.Contains(fmt.Sprint(p.Items.Type), "string"):
				kind = "list"
			case strings.Contains(fmt.Sprint(p.Items.Type), "array"):
				kind = "commands"
			default:
				continue // numbers and booleans, and hostPreflights, which is a document of Troubleshoot's
			}
			fields = append(fields, field{section, key, kind})
		}
	}
	slices.Sort(addOns)
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.section+"."+a.key, b.section+"."+b.key) })
	return fields, addOns
}

func (f field) value(text string) any {
	switch f.kind {
	case "list":
		return []string{text, text}
	case "commands":
		return [][]string{{text, text}}
	}
	return text
}

// allAddOns is the spec of every add-on that the schema lists, without the rivals of one of them; "" stands for the usual ones.
func allAddOns(addOns []string, with string) map[string]map[string]any {
	out := slices.DeleteFunc(rivals(), func(key string) bool { return key == with })
	switch with {
	case "antrea", "calico", "weave":
		out = append(out, "flannel")
	case "docker", "k3s", "rke2":
		out = append(out, "kubernetes", "containerd")
	}
	all := map[string]map[string]any{}
	for _, key := range addOns {
		if !slices.Contains(out, key) {
			all[key] = map[string]any{"version": "9.0.0"}
		}
	}
	return all
}

// rivals are the add-ons that do not go with Kubernetes, containerd and flannel.
func rivals() []string { return []string{"antrea", "calico", "docker", "k3s", "rke2", "weave"} }

// rivalOf is the rival that a field belongs to, or "".
func rivalOf(f field) string {
	if slices.Contains(rivals(), f.section) {
		return f.section
	}
	return ""
}

func writeSpec(t *testing.T, sections map[string]map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(map[string]any{"apiVersion": spec.KurlAPIVersion, "kind": spec.Kind, "metadata": map[string]any{"name": "1a2b3c4"}, "spec": sections})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lookingAddOns use every variable like kURL add-ons use some: as arguments with and without quotes, in templates of both kinds,
// in tests, in kustomizations, in messages, and handed on in an array.
func lookingAddOns(addOns, variables []string) (files []txtar.File) {
	var template strings.Builder
	for _, name := range variables {
		fmt.Fprintf(&template, "%s=<${%s}>\n", name, name)
	}
	for _, key := range addOns {
		name := spec.AddOnName(key)
		dir := name + "/9.0.0/"
		var script strings.Builder
		for _, hook := range []string{"_pre_init", "_install", "", "_join", "_post_init", "_outro"} {
			fmt.Fprintf(&script, `%[1]s%[2]s() {
    local src="$DIR/addons/%[1]s/9.0.0" dst="$DIR/kustomize/%[1]s" variable value
    mkdir -p "$dst"
    render_yaml_file_2 "$src/tmpl.yaml" >"$dst/rendered%[2]s"
    render_yaml_file "$src/tmpl.yaml" >"$dst/quoted"
    for variable in $NAMES; do
        value=${!variable}
        : $value "$value" ${value:-none}
        if [ "$value" = none ] || [[ $value == none ]]; then logWarn "$value"; fi
        log "$value" 2>/dev/null
    done
    HANDED_ON=("$value" "${HANDED_ON[0]}")
    touch "$dst/kustomization.yaml"
    insert_resources "$dst/kustomization.yaml" "$value"
}
`, name, hook)
		}
		files = append(files, txtar.File{Name: dir + "Manifest"}, txtar.File{Name: dir + "install.sh", Data: []byte(script.String())},
			txtar.File{Name: dir + "tmpl.yaml", Data: []byte(template.String())})
	}
	return files
}

func namesOfVariables(t *testing.T, text string) (names []string) {
	t.Helper()
	for name := range variablesOf(t, text) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func variablesOf(t *testing.T, text string) map[string]string {
	t.Helper()
	i, err := spec.Parse("installer.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, v := range i.Variables() {
		values[v.Name] = v.Value
	}
	return values
}

// TestInstallerValuesAreNotExecuted takes Installers with text that a shell, a template or a message would trip over in every field
// that takes text through all that 'sealift install' does up to its first change, and through the hooks of add-ons.
func TestInstallerValuesAreNotExecuted(t *testing.T) {
	short.AsRoot(t, "an install")
	fields, addOns := fieldsOfText(t)
	if len(fields) < 90 || len(addOns) < 20 {
		t.Fatalf("the schema has %d fields with text and %d add-ons", len(fields), len(addOns))
	}
	names := namesOfVariables(t, writeSpec(t, allAddOns(addOns, "")))
	files := lookingAddOns(addOns, names)
	owned := filepath.Join(t.TempDir(), "owned")
	texts := []string{
		"$(touch " + owned + ")", "`touch " + owned + "`", `"; touch ` + owned + `; "`, "'; touch " + owned + "; '", "a\ntouch " + owned + "\n---\nb: c",
		"a[$(touch " + owned + ")]", "{{kurl touch }}${HOME}{{ .x }}", "%s%n\\x24", "/*", "-rf",
	}
	hostile, bundles := map[string]map[string]map[string]any{}, map[string][]byte{}
	for _, rival := range append(rivals(), "") {
		hostile[rival] = allAddOns(addOns, rival)
		plain := writeSpec(t, hostile[rival])
		bundles[rival] = kurlBundle(t, plain, files)
		i, err := prepare(t, bundles[rival], plain)
		if err != nil {
			t.Fatalf("without hostile text, with %q: %v", rival, err)
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range fields {
		if f.key != "version" && !slices.Contains(checkedFields(), f.section+"."+f.key) {
			setField(hostile[rivalOf(f)], f, strings.Join(texts, " "))
			continue
		}
		for at, text := range texts {
			if testing.Short() && at > 0 { // each is refused in the same way
				break
			}
			one := allAddOns(addOns, rivalOf(f))
			setField(one, f, text)
			if i, err := prepare(t, bundles[rivalOf(f)], writeSpec(t, one)); err == nil {
				t.Errorf("%s.%s took %q", f.section, f.key, text)
				_ = i.Close()
			}
		}
	}
	for _, rival := range append(rivals(), "") {
		through(t, bundles[rival], writeSpec(t, hostile[rival]), names)
	}
	if _, err := os.Stat(owned); err == nil {
		t.Error("a value was run as code")
	}
}

// checkedFields are the fields, besides versions, from which sealift itself makes something. It refuses values that it can make
// nothing from.
func checkedFields() []string {
	return []string{"kurl.nodeLabels", "kurl.proxyAddress", "kurl.caCertificates", "selinuxConfig.selinux", "kubernetes.containerLogMaxSize",
		"kubernetes.evictionThresholdResources", "kubernetes.systemReservedResources", "kubernetes.serviceCIDR", "kubernetes.serviceCidrRange", "flannel.podCIDR", "flannel.podCIDRRange",
		"weave.podCIDR", "antrea.podCIDR", "weave.podCidrRange", "antrea.podCidrRange", "prometheus.serviceType", "snapshots.every", "snapshots.keep", "snapshots.store", "snapshots.key", "metrics.folder"}
}

func setField(sections map[string]map[string]any, f field, text string) {
	if sections[f.section] == nil {
		sections[f.section] = map[string]any{}
	}
	sections[f.section][f.key] = f.value(text)
}

// prepare does the part of 'sealift install' before its first change.
func prepare(t *testing.T, data []byte, text string) (*Install, error) {
	t.Helper()
	return Prepare(t.Context(), Options{
		Open: func() (*bundle.Archive, error) { return openBundle(t, data), nil },
		Adjust: func(*spec.Installer) (*spec.Installer, error) {
			return spec.Parse("installer.yaml", strings.NewReader(text))
		},
		Scope: node.Scope{Root: t.TempDir(), LogDir: t.TempDir()}, Binary: "hostile_test.go",
	})
}

// through runs hooks of every kind, and checks that they have seen the Installer's values, letter for letter.
func through(t *testing.T, data []byte, text string, names []string) {
	t.Helper()
	i, err := prepare(t, data, text)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = i.Close() }()
	i.hooks.variables["NAMES"] = strings.Join(names, " ")
	for _, a := range i.addOns {
		if _, err := i.extract(a)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := maps.Clone(i.hooks.variables)
	suffixes := []string{"_pre_init", "_install", "", "_join", "_post_init", "_outro"}
	for n, suffix := range suffixes {
		a := i.addOns[n]
		if _, err := i.hooks.call(t.Context(), a.name()+suffix); err != nil {
			t.Fatal(err)
		}
		wantRendered(t, filepath.Join(i.options.Root, "kustomize", a.name(), "rendered"+suffix), names, want)
	}
}

func wantRendered(t *testing.T, file string, names []string, want map[string]string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "%s=<%s>\n", name, want[name])
	}
	if string(got) != all.String() {
		t.Errorf("%s has\n%s\nwant\n%s", file, got, all.String())
	}
}
