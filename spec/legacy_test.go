package spec_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/spec"
)

// legacyInstaller is an Installer of kURL's first API version with body as its spec.
func legacyInstaller(body string) string {
	return "apiVersion: kurl.sh/v1beta1\nkind: Installer\nmetadata:\n  name: \"\"\nspec:\n" + body
}

const k = "  kubernetes: {version: 1.36.3}\n"

// TestFormsOfV1Beta1AreMigrated has the forms that kURL's API migrates when it reads an Installer: legacyFieldConversion and
// migrateV1Beta1 of replicatedhq/kURL-api (src/installers/index.ts), and the options of its schema that its CustomResourceDefinition
// names differently. want is the resulting spec, without kubernetes.
func TestFormsOfV1Beta1AreMigrated(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"the same keys as today":       {legacyInstaller(k + "  flannel: {version: 0.28.7}\n"), "  flannel: {version: 0.28.7}\n"},
		"no kind":                      {"apiVersion: kurl.sh/v1beta1\nmetadata: {name: x}\nspec:\n" + k, ""},
		"no metadata":                  {"apiVersion: kurl.sh/v1beta1\nspec:\n" + k, ""},
		"help_text and other keys":     {"apiVersion: kurl.sh/v1beta1\nkind: Installer\nhelp_text: |\n  text\nmetadata: {name: x, team: y}\nspec:\n" + k, ""},
		"an apiVersion in quotes":      {"apiVersion: \"kurl.sh/v1beta1\"\nkind: \"Installer\"\nspec:\n" + k, ""},
		"docker with empty version":    {legacyInstaller(k + "  docker: {version: \"\"}\n"), ""},
		"weave with empty version":     {legacyInstaller(k + "  weave: {version: \"\"}\n"), ""},
		"rook with empty version":      {legacyInstaller(k + "  rook: {version: \"\"}\n"), ""},
		"contour with empty version":   {legacyInstaller(k + "  contour: {version: \"\"}\n"), ""},
		"registry with empty version":  {legacyInstaller(k + "  registry: {version: \"\"}\n"), ""},
		"prometheus, empty version":    {legacyInstaller(k + "  prometheus: {version: \"\"}\n"), ""},
		"kotsadm with empty version":   {legacyInstaller(k + "  kotsadm: {version: \"\"}\n"), ""},
		"docker without version":       {legacyInstaller(k + "  docker: {noCEOnEE: true}\n"), ""},
		"weave without version":        {legacyInstaller(k + "  weave: {encryptNetwork: true}\n"), ""},
		"rook without version":         {legacyInstaller(k + "  rook: {storageClass: default, cephPoolReplicas: 1}\n"), ""},
		"weave as an empty text":       {legacyInstaller(k + "  weave: \"\"\n"), ""},
		"contour without anything":     {legacyInstaller(k + "  contour:\n"), ""},
		"registry with version null":   {legacyInstaller(k + "  registry: {version: null}\n"), ""},
		"prometheus with {}":           {legacyInstaller(k + "  prometheus: {}\n"), ""},
		"kotsadm without version":      {legacyInstaller(k + "  kotsadm: {applicationSlug: x}\n"), ""},
		"all seven at once":            {legacyInstaller(k + "  docker: {version: \"\"}\n  weave:\n  rook: {}\n  contour: {version: ''}\n  registry: {version: null}\n  prometheus: {version: }\n  kotsadm: {uiBindPort: 8800}\n"), ""},
		"a later add-on, empty":        {legacyInstaller(k + "  velero: {version: \"\"}\n  local-path-provisioner: {version: \"\"}\n"), ""},
		"encryptNetwork true":          {legacyInstaller(k + "  weave: {version: 2.6.5, encryptNetwork: true}\n"), "  weave: {version: 2.6.5, isEncryptionDisabled: false}\n"},
		"encryptNetwork false":         {legacyInstaller(k + "  weave: {version: 2.6.5, encryptNetwork: false}\n"), "  weave: {version: 2.6.5, isEncryptionDisabled: true}\n"},
		"encryptNetwork beside new":    {legacyInstaller(k + "  weave: {version: 2.6.5, encryptNetwork: false, isEncryptionDisabled: false}\n"), "  weave: {version: 2.6.5, isEncryptionDisabled: false}\n"},
		"encryptNetwork null":          {legacyInstaller(k + "  weave: {version: 2.6.5, encryptNetwork: null}\n"), "  weave: {version: 2.6.5}\n"},
		"IPAllocRange":                 {legacyInstaller(k + "  weave: {version: 2.6.5, IPAllocRange: /16}\n"), "  weave: {version: 2.6.5, podCidrRange: /16}\n"},
		"IPAllocRange beside new":      {legacyInstaller(k + "  weave: {version: 2.6.5, IPAllocRange: /16, podCidrRange: 22}\n"), "  weave: {version: 2.6.5, podCidrRange: 22}\n"},
		"IPAllocRange with a network":  {legacyInstaller(k + "  weave: {version: 2.6.5, IPAllocRange: 10.32.0.0/12}\n"), "  weave: {version: 2.6.5, podCIDR: 10.32.0.0/12}\n"},
		"efkStack":                     {legacyInstaller(k + "  fluentd: {version: 1.7.4, efkStack: true}\n"), "  fluentd: {version: 1.7.4, fullEFKStack: true}\n"},
		"efkStack beside new":          {legacyInstaller(k + "  fluentd: {version: 1.7.4, efkStack: true, fullEFKStack: false}\n"), "  fluentd: {version: 1.7.4, fullEFKStack: true}\n"},
		"storageClass":                 {legacyInstaller(k + "  rook: {version: 1.19.7, storageClass: default}\n"), "  rook: {version: 1.19.7, storageClassName: default}\n"},
		"storageClass beside new":      {legacyInstaller(k + "  rook: {version: 1.19.7, storageClass: a, storageClassName: b}\n"), "  rook: {version: 1.19.7, storageClassName: b}\n"},
		"storageClass beside empty":    {legacyInstaller(k + "  rook: {version: 1.19.7, storageClassName: '', storageClass: a}\n"), "  rook: {version: 1.19.7, storageClassName: a}\n"},
		"cephPoolReplicas":             {legacyInstaller(k + "  rook: {version: 1.19.7, cephPoolReplicas: 3}\n"), "  rook: {version: 1.19.7, cephReplicaCount: 3}\n"},
		"cephPoolReplicas beside new":  {legacyInstaller(k + "  rook: {version: 1.19.7, cephPoolReplicas: 3, cephReplicaCount: 1}\n"), "  rook: {version: 1.19.7, cephReplicaCount: 1}\n"},
		"cephPoolReplicas beside zero": {legacyInstaller(k + "  rook: {version: 1.19.7, cephPoolReplicas: 3, cephReplicaCount: 0}\n"), "  rook: {version: 1.19.7, cephReplicaCount: 3}\n"},
		"collectd 0.0.1":               {legacyInstaller(k + "  collectd: {version: 0.0.1}\n"), "  collectd: {version: v5}\n"},
		"bypassStorageDriverWarnings":  {legacyInstaller(k + "  docker: {version: 19.03.4, bypassStorageDriverWarnings: true}\n"), "  docker: {version: 19.03.4, bypassStorageDriverWarning: true}\n"},
		"additionalNoProxy":            {legacyInstaller(k + "  docker: {version: 19.03.4, additionalNoProxy: '10.0.0.1, 10.1.0.0/16'}\n"), "  docker: {version: 19.03.4}\n  kurl: {additionalNoProxyAddresses: [10.0.0.1, 10.1.0.0/16]}\n"},
		"additionalNoProxy beside new": {legacyInstaller(k + "  docker: {version: '', additionalNoProxy: b}\n  kurl: {additionalNoProxyAddresses: [a]}\n"), "  kurl: {additionalNoProxyAddresses: [a, b]}\n"},
		"noDocker":                     {legacyInstaller(k + "  docker: {version: '', noDocker: true}\n"), ""},
		"shouldDisableRebootService":   {legacyInstaller(k + "  ekco: {version: 0.28.14, shouldDisableRebootService: true}\n"), "  ekco: {version: 0.28.14, shouldDisableRebootServices: true}\n"},
		"EKCO of 2020":                 {legacyInstaller(k + "  ekco: {version: v0.1.0, nodeUnreachableTolerationDuration: 1h, rook: {shouldMaintainStorageNodes: true}}\n"), "  ekco: {version: v0.1.0, nodeUnreachableToleration: 1h}\n"},
		"installCLI and useRestic":     {legacyInstaller(k + "  velero: {version: 1.18.2, installCLI: false, useRestic: true}\n"), "  velero: {version: 1.18.2, disableCLI: true, disableRestic: false}\n"},
		"checks by their old names":    {legacyInstaller(k + "  kurl: {excludeBuiltinPreflights: true, preflightIgnore: true, preflightIgnoreWarnings: true, task: reset}\n"), "  kurl: {excludeBuiltinHostPreflights: true, hostPreflightIgnore: true}\n"},
		"firewalld below kurl":         {legacyInstaller(k + "  kurl: {bypassFirewalldWarning: true, hardFailOnFirewalld: false}\n  firewalldConfig: {hardFailOnFirewalld: true}\n"), "  kurl: {}\n  firewalldConfig: {hardFailOnFirewalld: true, bypassFirewalldWarning: true}\n"},
		"only a spec":                  {"spec:\n" + k, ""},
		"only metadata and a spec":     {"metadata:\n  name: stable\nspec:\n" + k, ""},
		"no kind, today's version":     {"apiVersion: cluster.kurl.sh/v1beta1\nspec:\n" + k, ""},
		"no version of the API":        {"kind: Installer\nspec:\n" + k, ""},
		"an empty version without one": {"spec:\n" + k + "  contour: {version: \"\"}\n", ""},
		"old options in lower case":    {legacyInstaller(k + "  rook: {version: 1.19.7, storageclass: default, cephpoolreplicas: 3}\n"), "  rook: {version: 1.19.7, storageClassName: default, cephReplicaCount: 3}\n"},
		"old options in today's kind":  {strings.Replace(legacyInstaller(k+"  rook: {version: 1.19.7, storageClass: default}\n"), spec.LegacyAPIVersion, spec.KurlAPIVersion, 1), "  rook: {version: 1.19.7, storageClassName: default}\n"},
		"an empty version in today's":  {strings.Replace(legacyInstaller(k+"  contour: {version: \"\"}\n  goldpinger: {version: \"\"}\n"), spec.LegacyAPIVersion, spec.KurlAPIVersion, 1), ""},
		"an empty version in ours":     {document(k + "  contour: {version: \"\"}\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := parse(t, row.text)
			want := parse(t, "apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nspec:\n"+k+row.want)
			want.Name, want.APIVersion = i.Name, i.APIVersion
			if got, want := canonical(t, i), canonical(t, want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(row.text, spec.LegacyAPIVersion) && i.APIVersion != spec.KurlAPIVersion {
				t.Errorf("API version %s", i.APIVersion)
			}
		})
	}
}

func TestMigratedFormsAreReported(t *testing.T) {
	i := parse(t, legacyInstaller(k+"  weave: {version: 2.6.5, encryptNetwork: true}\n  contour: {version: \"\"}\n  kurl: {task: reset}\n"))
	var got []string
	for _, f := range i.Check() {
		got = append(got, f.Error())
	}
	const want = `installer.yaml:7:27: warning: weave.encryptNetwork is an old name (write weave.isEncryptionDisabled)
installer.yaml:8:3: warning: contour is not chosen: it has no version (remove it, or name a version)
installer.yaml:9:10: warning: kurl.task has no effect (it named a task of kURL's scripts; leave it out)`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// kURL's API reads documents that have only a spec.
func TestMissingVersionAndKindAreReported(t *testing.T) {
	i := parse(t, "# comment\nspec:\n"+k)
	if i.APIVersion != spec.KurlAPIVersion {
		t.Errorf("API version %q", i.APIVersion)
	}
	const want = `installer.yaml:2:1: warning: apiVersion is missing (write apiVersion: cluster.kurl.sh/v1beta1)
installer.yaml:2:1: warning: kind is missing (write kind: Installer)`
	var got []string
	for _, f := range i.Check() {
		got = append(got, f.Error())
	}
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestV1Beta1KeepsItsMistakes(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"an option that never was":       {legacyInstaller(k + "  weave: {version: 2.6.5, encrypt: true}\n"), `weave has no option "encrypt"`},
		"an old option of a wrong type":  {legacyInstaller(k + "  weave: {version: 2.6.5, encryptNetwork: yes please}\n"), "weave.isEncryptionDisabled must be true or false"},
		"a later add-on without version": {legacyInstaller(k + "  velero: {namespace: x}\n"), "velero has no version"},
		"no version in today's kind":     {strings.Replace(legacyInstaller(k+"  contour: {httpPort: 80}\n"), spec.LegacyAPIVersion, spec.KurlAPIVersion, 1), "contour has no version"},
		"no version in ours":             {document(k + "  docker:\n"), "docker has no version"},
		"no add-on that is chosen":       {legacyInstaller("  docker: {version: \"\"}\n  weave:\n"), "no add-on of the spec has a version"},
		"no version of Kubernetes":       {legacyInstaller("  kubernetes: {version: \"\"}\n"), `bad version "" of kubernetes`},
		"another kind":                   {"apiVersion: kurl.sh/v1beta1\nkind: Pod\nspec:\n" + k, `unknown kind "Pod"`},
		"another version of the API":     {"apiVersion: kurl.sh/v1beta2\nkind: Installer\nspec:\n" + k, `unknown apiVersion "kurl.sh/v1beta2"`},
	} {
		if _, err := spec.Parse("i", strings.NewReader(row.text)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSalvageNamesOmissions(t *testing.T) {
	const text = "kind: Installer\nspec:\n  kubernetes: {version: 1.19.9, seLinux: true, maxPodsPerNode: many}\n  flannel: {podCIDR: 10.1.0.0/16}\n  bad key: {version: 1}\n"
	i, lost, err := spec.Salvage("i", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if i.APIVersion != spec.KurlAPIVersion || len(i.AddOns) != 2 || len(i.AddOn("kubernetes").Options) != 0 || i.AddOn("flannel").Options["podCIDR"] != "10.1.0.0/16" {
		t.Errorf("got %+v", i)
	}
	if len(lost) != 4 { // two options, flannel's version, a key
		t.Errorf("lost %v", lost)
	}
	if _, _, err := spec.Salvage("i", strings.NewReader("- a\n")); err == nil {
		t.Error("a list is an Installer")
	}
}
