package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
)

func parse(t testing.TB, text string) *spec.Installer {
	t.Helper()
	i, err := spec.Parse("installer.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// document is an Installer whose spec is body, indented by two blanks.
// laughs returns keys that each repeat the one before ten times, by aliases.
func laughs(n int) string {
	text := "  a0: &a0 {version: 1}\n"
	for i := range n {
		text += fmt.Sprintf("  a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return text
}

func TestParseReadsAliases(t *testing.T) {
	const aliases = "metadata: {name: &name demo}\nspec:\n  a: &defaults {version: 1.0, size: 3}\n  b:\n    <<: *defaults\n    version: 1.10\n  c: *defaults\n  d: {version: *name}\n"
	const plain = "metadata: {name: demo}\nspec:\n  a: {version: 1.0, size: 3}\n  b: {version: 1.10, size: 3}\n  c: {version: 1.0, size: 3}\n  d: {version: demo}\n"
	if diff := cmp.Diff(canonical(t, parse(t, plain)), canonical(t, parse(t, aliases))); diff != "" {
		t.Errorf("(-written out +aliases)\n%s", diff)
	}
}

func document(body string) string {
	return "apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n" + body
}

func TestParseReadsInstaller(t *testing.T) {
	const text = `apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata:
  name: 1a2b3c4
  creationTimestamp: null
spec:
  kubernetes:
    version: 1.20 # text, not a number
    maxPodsPerNode: 200
    HACluster: true
    serviceCidrRange: /22
    certKey: null
  certManager: {version: 1.9.1}
  kurl:
    airgap: true
    additionalNoProxyAddresses: [10.0.0.1, 10.0.0.2]
  local-path-provisioner:
    version: v5
    isDefault: true
    since: 2025-10-15
    limits: {size: 1.5, count: 2, names: [a, b]}
  selinuxConfig:
    chconCmds: [["-v", "-t", "x"]]
`
	want := &spec.Installer{
		APIVersion: spec.KurlAPIVersion,
		Name:       "1a2b3c4",
		AddOns: []spec.AddOn{
			{Name: "kubernetes", Key: "kubernetes", Version: "1.20", Options: spec.Options{
				"maxPodsPerNode": int64(200), "HACluster": true, "serviceCidrRange": "/22"}},
			{Name: "cert-manager", Key: "certManager", Version: "1.9.1", Options: spec.Options{}},
			{Name: "local-path-provisioner", Key: "local-path-provisioner", Version: "v5", Options: spec.Options{
				"isDefault": true, "since": "2025-10-15",
				"limits": map[string]any{"size": 1.5, "count": int64(2), "names": []any{"a", "b"}}}},
		},
		Sections: []spec.Section{
			{Key: "kurl", Options: spec.Options{"airgap": true, "additionalNoProxyAddresses": []any{"10.0.0.1", "10.0.0.2"}}},
			{Key: "selinuxConfig", Options: spec.Options{"chconCmds": []any{[]any{"-v", "-t", "x"}}}},
		},
	}
	if diff := cmp.Diff(want, parse(t, text), cmpopts.IgnoreTypes(diag.Pos{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEmptyDocumentsAndFieldsOfObjectsAreSkipped(t *testing.T) {
	text := document("  weave: {version: 1}\n")
	want := parse(t, text)
	for name, same := range map[string]string{
		"comments above the first line of dashes": "# made by hand\n---\n# for one site\n---\n" + text,
		"dashes at the end":                       text + "---\n# nothing more\n---\n",
		"an object of a cluster": strings.Replace(text, "spec:", "metadata: {generateName: x, selfLink: /a, finalizers: [a], ownerReferences: [], "+
			"deletionTimestamp: 2026-01-01T00:00:00Z, deletionGracePeriodSeconds: 0}\nspec:", 1),
	} {
		if diff := cmp.Diff(want.AddOn("weave").Version, parse(t, same).AddOn("weave").Version); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// kURL's storage-migration.yaml writes minimumnodecount.
func TestOptionsIgnoreCase(t *testing.T) {
	i := parse(t, document("  rook: {version: 1.11.7, minimumnodecount: 3, isblockstorageenabled: null}\n"))
	if diff := cmp.Diff(spec.Options{"minimumNodeCount": int64(3)}, i.AddOn("rook").Options); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"an empty document": {"", `i: error: the document is empty`},
		"comments":          {"# a\n---\n# b\n...\n", `i: error: the document is empty`},
		"null":              {"null\n", `i:1:1: error: the document is not a mapping`},
		"text for a spec":   {"apiVersion: sealift.dev/v1\nkind: Installer\nspec: weave\n", `i:3:7: error: spec must be a mapping`},
		"a list for a spec": {"apiVersion: sealift.dev/v1\nkind: Installer\nspec: []\n", `i:3:7: error: spec must be a mapping`},
		"a list":            {"- a\n", `i:1:1: error: the document is not a mapping`},
		"what is not YAML":  {"a: b\n c: [\n", `i:2:1: error: not YAML: mapping values are not allowed in this context`},
		"a second document": {document("  weave: {version: 1}\n---\na: b\n"), `i:5:1: error: a second document (keep one document per file)`},
		"another kind":      {"apiVersion: v1\nkind: Pod\nspec: {weave: {version: 1}}\n", "i:1:13: error: unknown apiVersion \"v1\" (write sealift.dev/v1 or cluster.kurl.sh/v1beta1)\ni:2:7: error: unknown kind \"Pod\" (write Installer)"},
		"a missing spec":    {"apiVersion: sealift.dev/v1\nkind: Installer\n", `i:1:1: error: the spec is missing or empty (name at least one add-on, such as kubernetes: {version: 1.36.3})`},
		"an unknown key":    {document("  weave: {version: 1}\n") + "metdata: {}\n", `i:5:1: error: unknown key "metdata" in the document (did you mean "metadata"?)`},
		"a key given twice": {document("  flannel:\n    version: a\n    version: b\n"), `i:6:5: error: key "version" is already on line 5 (keep one of them)`},
		"two spellings of an add-on": {document("  certManager: {version: a}\n  cert-manager: {version: b}\n"),
			`i:5:3: error: cert-manager is already on line 4 as "certManager" (keep one of them)`},
		"two spellings of a section": {document("  ufw: {disableUFW: true}\n  ufwConfig: {disableUFW: false}\n"),
			`i:5:3: error: ufw-config is already on line 4 as "ufw" (keep one of them)`},
		"two spellings of an option": {document("  rook: {version: 1, minimumNodeCount: 3, minimumnodecount: 1}\n"),
			`i:4:43: error: rook.minimumNodeCount is already given in another spelling (keep one of them)`},
		"a value that reads version, for a version": {document("  x: {a: version}\n"), `i:4:3: error: x has no version (write x: {version: …}, or remove it)`},
		"an anchor in itself":                       {document("  a: &x {version: 1, b: *x}\n"), `i:4:25: error: the value of anchor "x" contains itself (write the value out)`},
		"aliases that explode":                      {document(laughs(16)), `i:9:12: error: the aliases up to here add more than 50000 values or 4 MiB (repeat less)`},
		"aliases of a long text": {document("  a: {version: &x " + strings.Repeat("x", 600_000) + "}\n  b: {version: *x}\n"),
			`i: error: larger than 1048576 bytes with its aliases written out (repeat less)`},
		"a foreign tag":                             {document("  a: {version: !secret x}\n"), `i:4:16: error: unknown tag "!secret" (remove it)`},
		"a key that is not a string":                {document("  1: {version: x}\n"), `i:4:3: error: a key must be a string (quote it)`},
		"bottomless nesting":                        {document("  a: {version: 1, b: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}\n"), `i:4:84: error: nested more than 64 deep`},
		"a document with too many values":           {"a: [" + strings.Repeat("a,", 20_000) + "a]\n", `i: error: more than 20000 values; a list as long as that belongs into a file of an add-on`},
		"a document too large":                      {strings.Repeat("#", spec.MaxSize+1), `i: error: larger than 1048576 bytes`},
		"an add-on without version":                 {document("  flannel:\n"), `i:4:3: error: flannel has no version (write flannel: {version: …}, or remove it)`},
		"an add-on that is only a version":          {document("  flannel: 0.26.7\n"), `i:4:12: error: flannel must be a mapping (write flannel: {version: …})`},
		"a version that leaves its folder":          {document("  flannel: {version: ../x}\n"), `i:4:22: error: bad version "../x" of flannel (name a version such as 1.36.3, or remove the add-on)`},
		"a version of null":                         {document("  flannel: {version: null}\n"), `i:4:22: error: bad version "" of flannel (name a version such as 1.36.3, or remove the add-on)`},
		"an empty version of Kubernetes":            {document("  kubernetes: {version: \"\"}\n"), `i:4:25: error: bad version "" of kubernetes (name a version such as 1.36.3, or remove the add-on)`},
		"a version that is a list":                  {document("  flannel: {version: [1]}\n"), `i:4:22: error: flannel.version must be a string`},
		"an add-on key that leaves its folder":      {document("  ../x: {version: 1}\n"), `i:4:3: error: bad add-on key "../x" (letters and digits, starting with a letter)`},
		"an add-on whose variables are the shell's": {document("  ld: {version: 1, preload: /x.so}\n"), `i:4:3: error: an add-on called "ld" would set variables of the system (call the add-on something else)`},
		"an option that would overwrite another": {document("  pod: {version: 1, CIDR: x}\n"),
			`i:4:3: error: pod.CIDR and weave.podCIDR are both the variable POD_CIDR (rename one of them)`},
		"an option kURL does not list": {document("  flannel: {version: 1, podCIRD: x}\n"), `i:4:25: error: flannel has no option "podCIRD" (did you mean "podCIDR"?)`},
		"an option unlike any listed":  {document("  flannel: {version: 1, zzz: x}\n"), `i:4:25: error: flannel has no option "zzz" (known: version, s3Override, podCIDR, podCIDRRange)`},
		"a version where none belongs": {document("  kurl: {version: 1}\n"), `i:4:10: error: kurl has no option "version" (known: airgap, installerVersion, additionalNoProxyAddresses, hostnameCheck, ignoreRemoteLoadImagesPrompt, ignoreRemoteUpgradePrompt, licenseURL, nameserver, noProxy, proxyAddress, publicAddress, privateAddress, hostPreflights, hostPreflightIgnore, hostPreflightEnforceWarnings, skipSystemPackageInstall, excludeBuiltinHostPreflights, ipv6, dualStack, caCertificates, nodeLabels)`},
		"text for a boolean":           {document("  kubernetes: {version: 1, HACluster: \"yes\"}\n"), `i:4:39: error: kubernetes.HACluster must be true or false`},
		"octal for a number":           {document("  kubernetes: {version: 1, maxPodsPerNode: 0110}\n"), `i:4:44: error: kubernetes.maxPodsPerNode must be a whole number (write it with digits alone and no zero before them: 0110 is 72 for some programs and 110 for others)`},
		"hexadecimal for a number":     {document("  kubernetes: {version: 1, maxPodsPerNode: 0x6e}\n"), `i:4:44: error: kubernetes.maxPodsPerNode must be a whole number (write it with digits alone and no zero before them: 0110 is 72 for some programs and 110 for others)`},
		"text for a number":            {document("  contour: {version: 1, httpPort: http}\n"), `i:4:35: error: contour.httpPort must be a whole number`},
		"text for a list":              {document("  velero: {version: 1, serverFlags: a}\n"), `i:4:37: error: velero.serverFlags must be a list of strings`},
		"a range that is an address":   {document("  flannel: {version: 1, podCIDRRange: 10.0.0.0/8}\n"), `i:4:39: error: flannel.podCIDRRange must be a prefix length such as /20`},
		"a range without bits":         {document("  flannel: {version: 1, podCIDRRange: 0}\n"), `i:4:39: error: flannel.podCIDRRange must be a prefix length such as /20`},
		"a range with too many bits":   {document("  kubernetes: {version: 1, serviceCidrRange: /129}\n"), `i:4:46: error: kubernetes.serviceCidrRange must be a prefix length such as /20`},
		"a range of a blank":           {document("  weave: {version: 1, podCidrRange: ' '}\n"), `i:4:37: error: weave.podCidrRange must be a prefix length such as /20`},
		"three ranges":                 {document("  weave: {version: 1, podCidrRange: '22,112,8'}\n"), `i:4:37: error: weave.podCidrRange must be a prefix length such as /20`},
		"a range with two slashes":     {document("  weave: {version: 1, podCidrRange: //20}\n"), `i:4:37: error: weave.podCidrRange must be a prefix length such as /20`},
		"a version that is a boolean":  {document("  docker: {version: true}\n"), `i:4:21: error: bad version "true" of docker (name a version such as 1.36.3, or remove the add-on)`},
		"words for commands":           {document("  iptablesConfig: {iptablesCmds: [a]}\n"), `i:4:34: error: iptablesConfig.iptablesCmds must be a list of commands, each a list of words`},
		"several mistakes at once": {"apiVersion: sealift.dev/v1\nkind: Instaler\nspec:\n  flannel: {podCDIR: x}\n  kurl: {airgap: 1}\n",
			`i:2:7: error: unknown kind "Instaler" (write Installer)` + "\n" +
				`i:4:3: error: flannel has no version (write flannel: {version: …}, or remove it)` + "\n" +
				`i:4:13: error: flannel has no option "podCDIR" (did you mean "podCIDR"?)` + "\n" +
				`i:5:18: error: kurl.airgap must be true or false`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := spec.Parse("i", strings.NewReader(test.text))
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestCRLFIsNotPartOfValues(t *testing.T) {
	text := document("  containerd:\n    version: 2.2.1\n    tomlConfig: |\n      [a]\n      b = 1\n  kurl: {nameserver: '10.0.0.1'}\n")
	want, got := parse(t, text), parse(t, "\ufeff"+strings.ReplaceAll(text, "\n", "\r\n"))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(diag.Pos{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
