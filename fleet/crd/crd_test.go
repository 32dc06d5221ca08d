package crd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sealift/sealift/fleet/crd"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
)

// TestDefinitionsMatchUpstreamFields compares each version of each definition with a table of upstream's: names, columns, and of each field the path, the type,
// whether it is required, and its rules.
func TestDefinitionsMatchUpstreamFields(t *testing.T) {
	ours := tables(t)
	for _, file := range files(t) {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, found := ours[name]
		if !found {
			t.Errorf("%s: it is not served", name)
			continue
		}
		delete(ours, name)
		compare(t, name, got, strings.TrimRight(string(text), "\n"))
		if name == "addon.open-cluster-management.io_v1alpha1_addontemplates.tsv" {
			// Upstream's v1beta1 has the same fields. It is served and not stored. (open-cluster-management-io/api, addon/v1beta1,
			// 0000_03_addon.open-cluster-management.io_addontemplates.crd.yaml at 32d8ca6d)
			later := strings.Replace(name, "v1alpha1", "v1beta1", 1)
			same := strings.NewReplacer("/v1alpha1 ", "/v1beta1 ", "storage=true", "storage=false").Replace(strings.TrimRight(string(text), "\n"))
			compare(t, later, ours[later], same)
			delete(ours, later)
		}
	}
	for name := range ours {
		t.Errorf("%s: upstream has no such version", name)
	}
}

// compare compares the lines of a version with those of a table.
func compare(t *testing.T, name string, got []string, table string) {
	t.Helper()
	want := strings.Split(table, "\n")
	for i := range want { // the JSON of rules has other spaces
		want[i] = strings.ReplaceAll(want[i], " ", "")
	}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], " ", "")
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s lacks\n%s", name, line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s has\n%s", name, line)
		}
	}
}

func files(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(upstreamcases.Path(t, "fleet/fields"), "*.tsv"))
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	return list
}

// tables returns the lines of all versions of our definitions, by the names of their files.
func tables(t *testing.T) map[string][]string {
	t.Helper()
	hub, err1 := crd.Hub(crd.Conversion{})
	managed, err2 := crd.Managed()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	all := make(map[string][]string)
	for _, o := range append(hub, managed...) {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &d, true); err != nil {
			t.Fatalf("%s: %v", o.GetName(), err)
		}
		for _, v := range d.Spec.Versions {
			all[fmt.Sprintf("%s_%s_%s.tsv", d.Spec.Group, v.Name, d.Spec.Names.Plural)] = table(d.Spec, v)
		}
	}
	return all
}

func table(d apiextensionsv1.CustomResourceDefinitionSpec, v apiextensionsv1.CustomResourceDefinitionVersion) []string {
	names := d.Names.Plural
	if len(d.Names.ShortNames) > 0 {
		names += ", short " + strings.Join(d.Names.ShortNames, ",")
	}
	head := fmt.Sprintf("# %s/%s %s (%s), %s, served=%v storage=%v", d.Group, v.Name, d.Names.Kind, names, d.Scope, v.Served, v.Storage)
	if v.Subresources != nil && v.Subresources.Status != nil {
		head += ", status subresource"
	}
	lines := []string{head}
	for _, c := range v.AdditionalPrinterColumns {
		line := "# column " + c.Name + ": " + c.JSONPath
		if c.Priority > 0 {
			line += fmt.Sprintf(" (priority %d)", c.Priority)
		}
		lines = append(lines, line)
	}
	root := v.Schema.OpenAPIV3Schema
	for _, key := range []string{"apiVersion", "kind", "metadata"} {
		delete(root.Properties, key)
	}
	return append(append(lines, "path\ttype\trequired\trules"), members("", root)...)
}

// members returns the lines of a value's members.
func members(path string, s *apiextensionsv1.JSONSchemaProps) (lines []string) {
	add := func(at string, s *apiextensionsv1.JSONSchemaProps, required string) {
		lines = append(lines, strings.Join([]string{at, kind(s), required, strings.Join(rules(s), "; ")}, "\t"))
		lines = append(lines, members(at, s)...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		required := ""
		if slices.Contains(s.Required, name) {
			required = "required"
		}
		property := s.Properties[name]
		add(strings.TrimPrefix(path+"."+name, "."), &property, required)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		add(path+"{}", s.AdditionalProperties.Schema, "")
	}
	if s.Items != nil && s.Items.Schema != nil {
		add(path+"[]", s.Items.Schema, "")
	}
	return lines
}

func kind(s *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.XIntOrString:
		return "int-or-string"
	case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
		return s.Type + "+any"
	}
	return s.Type
}

// rules returns the rules of a value, in the order of the tables.
func rules(s *apiextensionsv1.JSONSchemaProps) (list []string) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return []string{err.Error()}
	}
	var has map[string]json.RawMessage
	if err := json.Unmarshal(text.Bytes(), &has); err != nil {
		return []string{err.Error()}
	}
	for _, name := range []string{
		"default", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "format",
		"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "nullable",
	} {
		if value, found := has[name]; found {
			list = append(list, strings.TrimPrefix(name, "x-kubernetes-")+"="+string(value))
		}
	}
	for _, v := range s.XValidations {
		list = append(list, fmt.Sprintf("rule=%q", v.Rule))
	}
	return list
}
