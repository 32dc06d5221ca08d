package spec_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/spec"
)

// schema is the published schema, compiled by another implementation.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := spec.Schema()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(spec.SchemaID, document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(spec.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// The schema and Parse agree, except where Parse refuses what no schema can express.
func TestSchemaAgreesWithParse(t *testing.T) {
	s := schema(t)
	for name, row := range map[string]struct {
		text  string
		valid bool
	}{
		"an Installer":                     {document("  kubernetes: {version: 1.36.3, HACluster: true, maxPodsPerNode: 110, certKey: null}\n"), true},
		"kURL's kind":                      {strings.Replace(document("  kubernetes: {version: 1.36.3}\n"), "sealift.dev/v1", spec.KurlAPIVersion, 1), true},
		"a version that reads as number":   {document("  kubernetes: {version: 1.36}\n"), true},
		"a pattern of versions":            {document("  kubernetes: {version: 1.36.x}\n  flannel: {version: latest}\n"), true},
		"an add-on of somebody else":       {document("  local-path-provisioner: {version: v5, isDefault: true, limits: {size: 1.5}}\n"), true},
		"another spelling":                 {document("  cert-manager: {version: 1.9.1}\n  ufw: {disableUFW: true}\n"), true},
		"an option in lower case":          {document("  rook: {version: 1.11.7, minimumnodecount: 3}\n"), true},
		"an option in capitals":            {document("  rook: {version: 1.11.7, MinimumNodeCount: 3}\n"), false},
		"settings":                         {document("  kurl: {airgap: true, additionalNoProxyAddresses: [10.0.0.1], hostPreflights: {spec: {}}}\n  selinuxConfig: {chconCmds: [[\"-v\", x]]}\n"), true},
		"a mirror":                         {document("  containerd: {version: 2.4.2, mirror: true}\n"), true},
		"a mirror that is a name":          {document("  containerd: {version: 2.4.2, mirror: control-planes}\n"), false},
		"what a cluster adds":              {document("  flannel: {version: 1}\n") + "metadata: {name: x, uid: y, labels: {a: b}}\nstatus: {}\n", true},
		"a prefix length":                  {document("  flannel: {version: 1, podCIDRRange: /20}\n"), true},
		"a prefix length without a slash":  {document("  flannel: {version: 1, podCIDRRange: 20}\n"), true},
		"two prefix lengths":               {document("  flannel: {version: 1, podCIDRRange: '22,112'}\n"), true},
		"a prefix length left empty":       {document("  flannel: {version: 1, podCIDRRange: ''}\n"), true},
		"a prefix length of 0":             {document("  flannel: {version: 1, podCIDRRange: '/0'}\n"), false},
		"another kind":                     {"apiVersion: v1\nkind: Pod\nspec: {weave: {version: 1}}\n", false},
		"a missing spec":                   {"apiVersion: sealift.dev/v1\nkind: Installer\n", false},
		"an empty spec":                    {"apiVersion: sealift.dev/v1\nkind: Installer\nspec: {}\n", false},
		"an unknown key":                   {document("  weave: {version: 1}\n") + "metdata: {}\n", false},
		"an unknown key of metadata":       {document("  weave: {version: 1}\n") + "metadata: {nmae: x}\n", false},
		"an add-on without version":        {document("  flannel: {podCIDR: x}\n"), false},
		"one of somebody else without":     {document("  thing: {size: 1}\n"), false},
		"an add-on that is only a version": {document("  flannel: 0.26.7\n"), false},
		"a version that leaves its folder": {document("  flannel: {version: ../x}\n"), false},
		"an add-on key that does":          {document("  ../x: {version: 1}\n"), false},
		"an option kURL does not list":     {document("  flannel: {version: 1, podCIRD: x}\n"), false},
		"a version where none belongs":     {document("  kurl: {version: 1}\n"), false},
		"text for a boolean":               {document("  kubernetes: {version: 1, HACluster: \"yes\"}\n"), false},
		"text for a number":                {document("  contour: {version: 1, httpPort: http}\n"), false},
		"text for a list":                  {document("  velero: {version: 1, serverFlags: a}\n"), false},
		"a range that is an address":       {document("  flannel: {version: 1, podCIDRRange: 10.0.0.0/8}\n"), false},
		"words for commands":               {document("  iptablesConfig: {iptablesCmds: [a]}\n"), false},
	} {
		t.Run(name, func(t *testing.T) {
			var value any
			if err := yaml.Unmarshal([]byte(row.text), &value); err != nil {
				t.Fatal(err)
			}
			said := s.Validate(value)
			if (said == nil) != row.valid {
				t.Errorf("the schema says: %v", said)
			}
			if _, err := spec.Parse("i", strings.NewReader(row.text)); (err == nil) != row.valid {
				t.Errorf("Parse says: %v", err)
			}
		})
	}
}

func TestSchemaIsDeterministic(t *testing.T) {
	first, err := spec.Schema()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if again, err := spec.Schema(); err != nil || !slices.Equal(first, again) {
			t.Fatalf("written otherwise, %v", err)
		}
	}
}
