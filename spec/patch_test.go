package spec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
)

func patch(t *testing.T, body string) *spec.Patch {
	t.Helper()
	p, err := spec.ParsePatch("patch.yaml", strings.NewReader(document(body)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const base = `  kubernetes: {version: 1.36.3, HACluster: true, maxPodsPerNode: 110}
  flannel: {version: 0.26.7}
  kurl: {airgap: true, additionalNoProxyAddresses: [a, b]}
`

func TestPatchOverridesOptions(t *testing.T) {
	for name, row := range map[string]struct {
		patches []string
		want    string
	}{
		"an option": {[]string{"  kubernetes: {maxPodsPerNode: 50}\n"}, `  kubernetes: {version: 1.36.3, HACluster: true, maxPodsPerNode: 50}
  flannel: {version: 0.26.7}
  kurl: {airgap: true, additionalNoProxyAddresses: [a, b]}
`},
		"a version":                  {[]string{"  flannel: {version: 0.27.0}\n"}, strings.Replace(base, "0.26.7", "0.27.0", 1)},
		"false":                      {[]string{"  kubernetes: {HACluster: false}\n"}, strings.Replace(base, "true", "false", 1)},
		"null changes nothing":       {[]string{"  kubernetes: {HACluster: null}\n  flannel:\n"}, base},
		"a list as a whole":          {[]string{"  kurl: {additionalNoProxyAddresses: [c]}\n"}, strings.Replace(base, "[a, b]", "[c]", 1)},
		"an empty version":           {[]string{"  flannel: {version: \"\"}\n  contour: {version: \"\", httpPort: 80}\n"}, strings.Replace(base, "  flannel: {version: 0.26.7}\n", "", 1)},
		"removed, then chosen":       {[]string{"  flannel: {version: \"\"}\n", "  flannel: {version: a}\n"}, strings.Replace(base, "  flannel: {version: 0.26.7}\n", "", 1) + "  flannel: {version: a}\n"},
		"an add-on that is new":      {[]string{"  metricsServer: {version: 0.9.0}\n"}, base + "  metricsServer: {version: 0.9.0}\n"},
		"settings that are new":      {[]string{"  ufw: {disableUFW: true}\n"}, base + "  ufwConfig: {disableUFW: true}\n"},
		"no option":                  {[]string{""}, base},
		"another spelling":           {[]string{"  Flannel: {version: \"1\"}\n"}, strings.Replace(base, "0.26.7", "\"1\"", 1)},
		"several, the last one wins": {[]string{"  flannel: {version: a, podCIDR: x}\n", "  flannel: {version: b}\n"}, strings.Replace(base, "{version: 0.26.7}", "{version: b, podCIDR: x}", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			original := parse(t, document(base))
			var patches []*spec.Patch
			for _, body := range row.patches {
				patches = append(patches, patch(t, body))
			}
			got, err := original.Merge(patches...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, document(row.want)), got, cmpopts.IgnoreTypes(diag.Pos{}, []diag.Finding{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, document(base)), original); diff != "" {
				t.Errorf("the Installer itself changed (-want +got)\n%s", diff)
			}
		})
	}
}

// kURL's installermerge takes an empty file and a patch without a spec.
func TestEmptyPatchChangesNothing(t *testing.T) {
	for _, text := range []string{"", " \n\n", "# nothing\n", "# nothing\n---\n# here\n---\n", "spec: {}\n", "apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nmetadata:\n  name: base\nspec:\n", "spec:\n  kubernetes:\n"} {
		p, err := spec.ParsePatch("patch.yaml", strings.NewReader(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got, err := parse(t, document(base)).Merge(p)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(parse(t, document(base)), got, cmpopts.IgnoreTypes(diag.Pos{}, []diag.Finding{})); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", text, diff)
		}
	}
	if _, err := spec.ParsePatch("patch.yaml", strings.NewReader("apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\n")); err == nil {
		t.Error("a patch without the key spec is one")
	}
}

func TestPatchMistakesHavePositions(t *testing.T) {
	for name, row := range map[string]struct{ body, want string }{
		"an option that there is not":  {"  flannel: {podCIRD: x}\n", `patch.yaml:4:13: error: flannel has no option "podCIRD" (did you mean "podCIDR"?)`},
		"a new add-on without version": {"  contour: {httpPort: 80}\n", `patch.yaml:4:3: error: contour is new and has no version (write contour: {version: …})`},
		"a variable of another's":      {"  pod: {version: 1, CIDR: x}\n", `patch.yaml:4:3: error: pod.CIDR and weave.podCIDR are both the variable POD_CIDR (rename one of them)`},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := spec.ParsePatch("patch.yaml", strings.NewReader(document(row.body)))
			if err == nil {
				_, err = parse(t, document(base)).Merge(p)
			}
			if err == nil || err.Error() != row.want {
				t.Errorf("got  %v\nwant %s", err, row.want)
			}
		})
	}
	if _, err := spec.LoadPatch(t.TempDir() + "/absent"); err == nil || !strings.Contains(err.Error(), "read patch") {
		t.Errorf("got %v", err)
	}
}

func TestCommandLineWordsSetOptions(t *testing.T) {
	for name, row := range map[string]struct {
		words []string
		want  string // the variables that differ
		rest  []string
	}{
		"kURL's flag":              {[]string{"kubernetes-max-pods-per-node=50"}, "KUBERNETES_MAX_PODS_PER_NODE=50", nil},
		"one without a value":      {[]string{"ipv6"}, "IPV6_ONLY=1", nil},
		"one with dashes":          {[]string{"--private-address=10.0.0.1"}, "PRIVATE_ADDRESS=10.0.0.1", nil},
		"one that is switched off": {[]string{"ha=false"}, "HA_CLUSTER=", nil},
		// kURL's bashmerge appends to the lists of these two words and removes the v from a version
		"a word that adds to a list":   {[]string{"additional-no-proxy-addresses=c,d", "additional-no-proxy-addresses=e"}, "ADDITIONAL_NO_PROXY_ADDRESSES=a,b,c,d,e", nil},
		"a flag that adds to a list":   {[]string{"--additional-no-proxy-addresses=c"}, "ADDITIONAL_NO_PROXY_ADDRESSES=a,b,c", nil},
		"an option that is a list":     {[]string{"kurl.additionalNoProxyAddresses=c,d"}, "ADDITIONAL_NO_PROXY_ADDRESSES=c,d", nil},
		"a version with a v":           {[]string{"kubernetes-version=v1.36.4"}, "KUBERNETES_VERSION=1.36.4", nil},
		"an option with a v":           {[]string{"kubernetes.version=v1.36.4"}, "KUBERNETES_VERSION=1.36.4", nil},
		"another's version with a v":   {[]string{"flannel.version=v1"}, "FLANNEL_VERSION=v1", nil},
		"a value with an equals sign":  {[]string{"kubernetes-cluster-name=a=b"}, "KUBERNETES_CLUSTER_NAME=a=b", nil},
		"what a shell would evaluate":  {[]string{"load-balancer-address=$(id)`id`"}, "LOAD_BALANCER_ADDRESS=$(id)`id`", nil},
		"any option of the Installer":  {[]string{"flannel.podCIDR=10.1.0.0/16"}, "FLANNEL_POD_CIDR=10.1.0.0/16", nil},
		"one of somebody else's":       {[]string{"my-thing.size=5"}, "MY_THING_SIZE=5", nil},
		"a version":                    {[]string{"kubernetes-version=1.36.4", "flannel.version=2"}, "FLANNEL_VERSION=2 KUBERNETES_VERSION=1.36.4", nil},
		"what is not about Installers": {[]string{"yes", "airgap", "primary-host=10.0.0.1", "ha=0"}, "HA_CLUSTER=", []string{"yes", "primary-host=10.0.0.1"}},
		"the last one wins":            {[]string{"public-address=a", "public-address=b"}, "PUBLIC_ADDRESS=b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			original := parse(t, document(base+"  my-thing: {version: 1}\n"))
			before := map[string]string{}
			for _, v := range original.Variables() {
				before[v.Name] = v.Value
			}
			changed, unused, err := original.Override(row.words...)
			if err != nil {
				t.Fatal(err)
			}
			var differ []string
			for _, v := range changed.Variables() {
				if old, ok := before[v.Name]; !ok || old != v.Value {
					differ = append(differ, v.Name+"="+v.Value)
				}
			}
			if got := strings.Join(differ, " "); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
			if diff := cmp.Diff(spec.Unused{Unknown: row.rest}, unused); diff != "" {
				t.Errorf("rest (-want +got)\n%s", diff)
			}
			for _, v := range original.Variables() {
				if before[v.Name] != v.Value {
					t.Errorf("the Installer itself changed: %s=%s", v.Name, v.Value)
				}
			}
		})
	}
}

func TestVeleroServerFlagsAreAdded(t *testing.T) {
	i, _, err := parse(t, document("  velero: {version: 1, serverFlags: [--log-level=debug]}\n")).Override("velero-server-flags=--features=EnableCSI,--x", "velero-server-flags=--y")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"--log-level=debug", "--features=EnableCSI", "--x", "--y"}, i.AddOn("velero").Options["serverFlags"]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestUnusedWordsAreReturned(t *testing.T) {
	for word, want := range map[string]string{
		"kubernetes-max-pods-per-node=many": `argument 1: error: kubernetes-max-pods-per-node: "many" is not a whole number`,
		"kubernetes-cluster-name":           `argument 1: error: kubernetes-cluster-name: needs a value, a string`,
		"ha=perhaps":                        `argument 1: error: ha: "perhaps" is not true or false`,
		"flannel.podCIRD=x":                 `argument 1: error: flannel.podCIRD: flannel has no option "podCIRD" (did you mean "podCIDR"?)`,
		"velero.resticTimeout=1h":           `argument 1: error: velero.resticTimeout: the Installer has no velero`,
		"thing.size=1":                      `argument 1: error: thing.size: the Installer has no thing`,
		"kubernetes-version=../x":           `argument 1: error: kubernetes-version: bad version "../x" of kubernetes`,
		"iptablesConfig.iptablesCmds=a":     `argument 1: error: iptablesConfig.iptablesCmds: is a list of commands, each a list of words, which cannot be given on a command line; use a patch`,
		"flannel.podCIDRRange=10.0.0.0/8":   `argument 1: error: flannel.podCIDRRange: "10.0.0.0/8" is not a prefix length such as /20`,
	} {
		if _, _, err := parse(t, document(base)).Override(word); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", word, err, want)
		}
	}
}

// kURL's own join and upgrade commands carry flags of add-ons that an Installer does not have.
func TestFlagsOfAbsentAddOnsAreReported(t *testing.T) {
	for _, word := range []string{"ekco-enable-internal-load-balancer", "aws-exclude-storage-class", "velero-restic-timeout=1h", "velero-server-flags=--a,--b",
		"app-version-label=1.2", "docker-registry-ip=10.96.0.9", "preserve-docker-config"} {
		original := parse(t, document(base))
		changed, unused, err := original.Override("ha", word)
		if err != nil {
			t.Errorf("%s: %v", word, err)
			continue
		}
		if diff := cmp.Diff(spec.Unused{Absent: []string{word}}, unused); diff != "" {
			t.Errorf("%s (-want +got)\n%s", word, diff)
		}
		if got := canonical(t, changed); strings.Contains(got, "velero") || !strings.Contains(got, "HACluster: true") {
			t.Errorf("%s changes the Installer:\n%s", word, got)
		}
	}
	if _, _, err := parse(t, document(base)).Override("velero-restic-timeout"); err == nil {
		t.Error("a flag without its value passes, because its add-on is absent")
	}
}

// Every flag of kURL that sets an option refers to an existing one.
func TestFlagsSetExistingOptions(t *testing.T) {
	all := parse(t, document("  kubernetes: {version: 1}\n  ekco: {version: 1}\n  docker: {version: 1}\n  aws: {version: 1}\n  velero: {version: 1}\n  kotsadm: {version: 1}\n  registry: {version: 1}\n"))
	if n := len(spec.Flags()); n < 39 {
		t.Errorf("%d flags", n)
	}
	for _, f := range spec.Flags() {
		word := f.Name
		switch f.Value {
		case "":
		case "a whole number":
			word += "=7"
		default:
			word += "=x"
		}
		if _, unused, err := all.Override(word); err != nil || len(unused.Unknown)+len(unused.Absent) > 0 {
			t.Errorf("%s: %v, left %v", word, err, unused)
		}
	}
}

// TestWordsOfForeignAddOnsAreMarked sets options of add-ons whose types kURL lists, and of others.
func TestWordsOfForeignAddOnsAreMarked(t *testing.T) {
	original := parse(t, document("  kubernetes: {version: 1.36.3}\n  my-thing: {version: 1, size: 5}\n"))
	changed, _, err := original.Override("kubernetes.maxPodsPerNode=50", "my-thing.size=6", "my-thing.version=2", "my-thing.names=a,b")
	if err != nil {
		t.Fatal(err)
	}
	if got := changed.AddOn("kubernetes").Words; len(got) > 0 {
		t.Errorf("kubernetes: %q", got)
	}
	if got := changed.AddOn("my-thing").Words; !slices.Equal(got, []string{"size", "names"}) {
		t.Errorf("my-thing: %q", got)
	}
	p, err := spec.ParsePatch("patch.yaml", strings.NewReader(document("  my-thing: {size: 7}\n")))
	if err != nil {
		t.Fatal(err)
	}
	merged, err := changed.Merge(p)
	if err != nil {
		t.Fatal(err)
	}
	if got := merged.AddOn("my-thing").Words; !slices.Equal(got, []string{"names"}) {
		t.Errorf("after a patch: %q", got)
	}
	if len(changed.AddOn("my-thing").Words) != 2 || len(original.AddOn("my-thing").Words) > 0 {
		t.Error("an Installer was changed")
	}
}

func FuzzOverride(f *testing.F) {
	for _, seed := range []string{"ha", "--flannel.podCIDR=x", "kubernetes-version=$(id)", "a.b=c", "=", "velero.serverFlags=a,,b", "kurl.hostPreflights=x"} {
		f.Add(seed)
	}
	original := parse(f, document(base))
	f.Fuzz(func(t *testing.T, word string) {
		changed, unused, err := original.Override(word)
		if err != nil || len(unused.Unknown)+len(unused.Absent) > 0 {
			return
		}
		text := canonical(t, changed)
		if again := canonical(t, parse(t, text)); again != text {
			t.Errorf("%q gives an Installer that is read otherwise\n%s\n%s", word, text, again)
		}
	})
}
