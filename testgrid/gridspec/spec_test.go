package gridspec_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/testgrid/gridspec"
)

func parse(t *testing.T, text string) *gridspec.File {
	t.Helper()
	f, err := gridspec.Parse("tests.yaml", strings.NewReader(text), gridspec.Values{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestSpecFilesOfKurlLoadUnchanged loads the samples and expects as many tests, or systems, as their README counts.
func TestSpecFilesOfKurlLoadUnchanged(t *testing.T) {
	dir := upstreamcases.Path(t, "testgrid")
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+\\.yaml)` \\| ([0-9]+)( systems)? \\|$").FindAllStringSubmatch(string(readme), -1)
	if len(rows) < 7 {
		t.Fatalf("the README counts only %d files", len(rows))
	}
	compiled := schema(t)
	for _, row := range rows {
		want, _ := strconv.Atoi(row[2])
		f, err := gridspec.Load(filepath.Join(dir, row[1]), gridspec.Values{})
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if row[3] != "" {
			if len(f.Systems) != want || len(f.Tests) != 0 {
				t.Errorf("%s has %d systems and %d tests, want %d systems", row[1], len(f.Systems), len(f.Tests), want)
			}
			continue
		}
		if len(f.Tests) != want || len(f.Systems) != 0 {
			t.Errorf("%s has %d tests and %d systems, want %d tests", row[1], len(f.Tests), len(f.Systems), want)
		}
		ids := map[string]bool{}
		for _, test := range f.Tests {
			if ids[test.ID] = true; test.Install.AddOn("kubernetes").Version == "" {
				t.Errorf("%s: %q installs no Kubernetes", test.Pos, test.Name)
			}
		}
		if len(ids) != want {
			t.Errorf("%s: %d IDs for %d tests", row[1], len(ids), want)
		}
		if err := compiled.Validate(document(t, filepath.Join(dir, row[1]))); err != nil {
			t.Errorf("the schema refuses %s: %v", row[1], err)
		}
	}
}

func TestKurlFieldsKeepTheirMeaning(t *testing.T) {
	f := parse(t, `#file: noinspection YAMLSchemaValidation
- name: "Upgrade, HA"
  numPrimaryNodes: 3
  numSecondaryNodes: 1
  cpu: "6"
  memory: 8Gi
  airgap: true
  flags: "yes"
  installerApiEndpoint: https://kurl.sh
  installerSpec: {kubernetes: {version: 1.19.x}, flannel: {version: __testver__, s3Override: __testdist__}, kurl: {installerVersion: ""}}
  upgradeSpec: {kubernetes: {version: 1.20}}
  preInstallScript: |
    echo hello
  supportbundleSpec: {kind: SupportBundle, spec: {collectors: []}}
  unsupportedOSIDs:
  - centos-79
- installerSpec: {kubernetes: {version: latest}}
- name: "Upgrade HA"
  installerSpec: {kubernetes: {version: latest}, rook: {version: 1.11.7, minimumnodecount: 3}}
`)
	got := f.Tests[0]
	if got.ID != "upgrade-ha" || f.Tests[1].ID != "tests-2" || f.Tests[2].ID != "upgrade-ha-2" {
		t.Errorf("IDs: %s, %s, %s", got.ID, f.Tests[1].ID, f.Tests[2].ID)
	}
	want := []gridspec.Join{{Role: gridspec.ControlPlane}, {Role: gridspec.ControlPlane}, {Role: gridspec.Worker}}
	if diff := cmp.Diff(want, got.Joins); diff != "" || got.Nodes() != 4 {
		t.Errorf("%d nodes, joins (-want +got)\n%s", got.Nodes(), diff)
	}
	if got.CPU != 6 || got.Memory != 8<<30 || !got.Airgap || got.Flags != "yes" || got.InstallEndpoint != "https://kurl.sh" || got.PreInstall != "echo hello\n" {
		t.Errorf("got %+v", got)
	}
	if f.Tests[1].CPU != 4 || f.Tests[1].Memory != 16<<30 {
		t.Errorf("by default %d processors and %d bytes, not kURL's", f.Tests[1].CPU, f.Tests[1].Memory)
	}
	if rook := f.Tests[2].Install.AddOn("rook"); rook.Options["minimumNodeCount"] != int64(3) {
		t.Errorf("an option in lower case became %+v", rook.Options)
	}
	if !strings.Contains(got.SupportBundle, "kind: SupportBundle") {
		t.Errorf("support bundle: %q", got.SupportBundle)
	}
	if got.Supports("centos-79") || !got.Supports("ubuntu-2404") {
		t.Error("unsupportedOSIDs are not the systems that a test refuses")
	}
	if v := got.Upgrade.AddOn("kubernetes").Version; v != "1.20" {
		t.Errorf("the version 1.20 became %q", v)
	}
	flannel := got.Install.AddOn("flannel")
	if _, has := flannel.Options["s3Override"]; flannel.Version != "latest" || has {
		t.Errorf("without values, the placeholders became %+v", flannel)
	}
	filled, err := gridspec.Parse("tests.yaml", strings.NewReader(`- name: from 1.2.2 to __testver__
  installerSpec: {flannel: {version: __testver__, s3Override: __testdist__}}
  postInstallScript: kubectl get daemonsets -A -o wide | grep __testver__
`),
		gridspec.Values{Version: "1.2.3", Dist: "https://example.com/flannel.tar.gz"})
	if err != nil {
		t.Fatal(err)
	}
	flannel = filled.Tests[0].Install.AddOn("flannel")
	if flannel.Version != "1.2.3" || flannel.Options["s3Override"] != "https://example.com/flannel.tar.gz" {
		t.Errorf("with values, the placeholders became %+v", flannel)
	}
	if test := filled.Tests[0]; test.Name != "from 1.2.2 to 1.2.3" || test.PostInstall != "kubectl get daemonsets -A -o wide | grep 1.2.3" {
		t.Errorf("with values, the name is %q, the script %q", test.Name, test.PostInstall)
	}
}

const ours = `
- name: everything
  installerSpec: {kubernetes: {version: 1.36.3}}
  join: [{}, {role: control-plane, flags: force}]
  kill: [{step: containerd/install, after: 300ms}, {node: 3, step: kubernetes/join, signal: TERM}]
  upgradeSpec: {kubernetes: {version: 1.37.0}}
  powerCut: [{step: kubernetes/init, during: upgrade}]
  cutNetwork: [{node: 2, step: kubernetes/join, lasts: 20s}]
  clock: [{node: 2, offset: -1h}]
  expect:
  - {nodesReady: 3, within: 5m}
  - {podsRunning: all}
  - {http: {url: "http://10.96.0.1/", status: 403, contains: no}}
  - {command: {node: 2, run: "hostname", exit: 1, contains: x}}
  - {noImagePulled: true}
  - {bytesFetched: {node: 2, most: 10Mi}}
  - {took: {part: install, most: 5m}}
  reset: clean
`

// kURL's testgrid/focused-goldpinger has specs as its runner writes them: as JSON, with the zero values of its type.
func TestZeroValuesOfRunnerAreDefaults(t *testing.T) {
	const text = `[{"name": "a", "numPrimaryNodes": 0, "numSecondaryNodes": 0, "memory": "", "cpu": "", "installerApiEndpoint": "", "upgradeApiEndpoint": "",
 "installerSpec": {"kubernetes": {"version": "1.33.x"}}, "upgradeSpec": null, "supportbundleSpec": null, "unsupportedOSIDs": null, "postUpgradeScript": "echo"},
 {"name": "b", "numPrimaryNodes": null, "numSecondaryNodes": null, "memory": null, "cpu": null, "airgap": null, "flags": null, "reset": null,
 "installerSpec": {"kubernetes": {"version": "1.33.x"}}}]`
	for _, got := range parse(t, text).Tests {
		if got.CPU != 4 || got.Memory != 16<<30 || got.Nodes() != 1 || got.Upgrade != nil || got.Airgap || got.Reset || got.SupportBundle != "" {
			t.Errorf("got %+v", got)
		}
	}
	if err := schema(t).Validate(decoded(t, []byte(text))); err != nil {
		t.Errorf("the schema says: %v", err)
	}
}

func TestSealiftFieldsAreRead(t *testing.T) {
	got := parse(t, ours).Tests[0]
	if diff := cmp.Diff([]gridspec.Fault{{Node: 1, Step: "containerd/install", After: 300 * time.Millisecond, Signal: "KILL"}, {Node: 3, Step: "kubernetes/join", Signal: "TERM"}}, got.Kills); diff != "" {
		t.Errorf("kill (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]gridspec.Fault{{Node: 2, Step: "kubernetes/join", Lasts: 20 * time.Second}}, got.CutNetwork); diff != "" {
		t.Errorf("cutNetwork (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]gridspec.Fault{{Node: 1, Step: "kubernetes/init", Upgrade: true}}, got.PowerCuts); diff != "" {
		t.Errorf("powerCut (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]gridspec.Clock{{Node: 2, Offset: -time.Hour}}, got.Clocks); diff != "" {
		t.Errorf("clock (-want +got)\n%s", diff)
	}
	e := got.Expect
	if len(e) != 7 || e[0].NodesReady != 3 || e[0].Within != 5*time.Minute || e[1].PodsRunning != "all" || e[2].HTTP.Status != 403 || e[3].Command.Node != 2 ||
		!e[4].NoImagePulled || e[5].BytesFetched.Most != 10<<20 || e[6].Took.Most != 5*time.Minute || !got.Reset {
		t.Errorf("expectations: %+v", e)
	}
	if err := schema(t).Validate(decoded(t, []byte(ours))); err != nil {
		t.Errorf("the schema refuses it: %v", err)
	}
}

// TestMistakesNameTheirPosition uses five mistakes in one file, and expects five positions.
func TestMistakesNameTheirPosition(t *testing.T) {
	const text = `- name: five mistakes
  installerSpec:
    kubernetes:
      verson: 1.36.3
  numSecondaryNodes: many
  postInstalScript: kubectl get nodes
  expect:
  - {nodesReady: 2, podsRunning: all}
  kill: [{node: 7, step: containerd/install}]
`
	_, err := gridspec.Parse("tests.yaml", strings.NewReader(text), gridspec.Values{})
	var got diag.Errors
	if !errors.As(err, &got) {
		t.Fatalf("got %v", err)
	}
	places := map[string]bool{}
	for _, finding := range got {
		places[fmt.Sprintf("%d:%d", finding.Pos.Line, finding.Pos.Col)] = true
	}
	// An add-on with a misspelled version has two findings: the option, and the missing version.
	want := map[string]bool{"3:5": true, "4:7": true, "5:22": true, "6:3": true, "8:5": true, "9:17": true}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("places (-want +got)\n%s\n%v", diff, err)
	}
	for _, hint := range []string{`did you mean "version"?`, `did you mean "postInstallScript"?`, "from 1 to 1"} {
		if !strings.Contains(err.Error(), hint) {
			t.Errorf("want %q in\n%v", hint, err)
		}
	}
}

// TestUnusedExpectationsAreRefused has tests that would pass without any check.
func TestUnusedExpectationsAreRefused(t *testing.T) {
	const head = "- name: x\n  installerSpec: {kubernetes: {version: 1.36.3}}\n  "
	for text, want := range map[string]string{
		`expect: [{podsRunning: ""}]`:                 `4:26: error: podsRunning is empty`,
		`expect: [{podsRunning: }]`:                   `podsRunning is empty`,
		`expect: [{command: {run: " "}}]`:             `run is empty`,
		`expect: [{noImagePulled: false}]`:            `noImagePulled must be true`,
		`expect: [{took: {part: upgrade, most: 1s}}]`: `the test has no upgrade`,
		`expect: [{took: {part: reset, most: 1s}}]`:   `the test has no reset`,
		`expect: [{took: {part: join, most: 1s}}]`:    `the test has no join`,
	} {
		_, err := gridspec.Parse("tests.yaml", strings.NewReader("\n"+head+text+"\n"), gridspec.Values{})
		var wrong diag.Errors
		if !errors.As(err, &wrong) || len(wrong) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if f := parse(t, head+"postUpgradeScript: kubectl get nodes\n"); len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0].Error(), "postUpgradeScript never runs") {
		t.Errorf("warnings: %v", f.Warnings)
	}
	if f := parse(t, head+"upgradeSpec: {kubernetes: {version: 1.36.4}}\n  postUpgradeScript: kubectl get nodes\n  reset: clean\n  expect: [{took: {part: upgrade, most: 1s}}, {took: {part: reset, most: 1s}}]\n"); len(f.Warnings) != 0 {
		t.Errorf("warnings: %v", f.Warnings)
	}
}

func TestInvalidFileIsRefused(t *testing.T) {
	const head = "- installerSpec: {kubernetes: {version: 1}}\n  "
	compiled := schema(t)
	for behaviour, row := range map[string]struct{ text, want string }{
		"a mapping":                   {"name: x\n", "not a list of tests"},
		"an empty list":               {"[]\n", "not a list of tests"},
		"a list of words":             {"- x\n", "a test must be a mapping"},
		"nothing to install":          {"- name: x\n", "no installerSpec"},
		"an empty spec":               {"- installerSpec: {}\n", "the spec is empty"},
		"a spec that is text":         {"- installerSpec: x\n", "empty"},
		"an add-on without version":   {"- installerSpec: {flannel: {}}\n", "flannel has no version"},
		"a boolean that is none":      {head + "airgap: maybe\n", "airgap must be true or false"},
		"no processors":               {head + "cpu: 0\n", "from 1 to 1024"},
		"a size without a unit of us": {head + "memory: 16G\n", "size in bytes"},
		"a size beyond all":           {head + "memory: 999999999999999Ti\n", "larger than any machine"},
		"scripts that are a list":     {head + "preInstallScript: [a]\n", "must be a string"},
		"a role that does not exist":  {head + "join: [{role: master}]\n", `unknown role "master"`},
		"a fault without a step":      {head + "powerCut: [{}]\n", "needs the ID of a step"},
		"a fault of no upgrade":       {head + "kill: [{step: a/b, during: upgrade}]\n", "the test has no upgrade"},
		"a fault of another node":     {head + "upgradeSpec: {kubernetes: {version: 2}}\n  numSecondaryNodes: 1\n  kill: [{step: a/b, node: 2, during: upgrade}]\n", "a command on node 1"},
		"a fault of no reset":         {head + "kill: [{step: reset/b}]\n", "the test has no reset"},
		"a cut without an end":        {head + "cutNetwork: [{step: a/b}]\n", "how long the cut lasts"},
		"a signal that does not end":  {head + "kill: [{step: a/b, signal: STOP}]\n", `unknown signal "STOP"`},
		"a clock that is right":       {head + "clock: [{}]\n", "by how much"},
		"a duration without a unit":   {head + "expect: [{nodesReady: 1, within: 5}]\n", "must be a duration"},
		"nothing expected":            {head + "expect: [{within: 5s}]\n", "expects 0 things"},
		"an expected false":           {head + "expect: [{noImagePulled: false}]\n", "must be true"},
		"a URL of a file":             {head + "expect: [{http: {url: /etc/passwd}}]\n", "bad URL"},
		"a command without a script":  {head + "expect: [{command: {exit: 1}}]\n", "command has no run"},
		"another reset":               {head + "reset: maybe\n", "unknown reset"},
		"an ID of a system with ..":   {head + "unsupportedOSIDs: [../x]\n", "bad ID"},
		"a system among tests":        {head + "name: x\n- id: ubuntu-2404\n", "a system in a list of tests"},
		"an endless alias":            {"- &a\n  installerSpec: {}\n  x: *a\n", "contains itself"},
	} {
		_, err := gridspec.Parse("tests.yaml", strings.NewReader(row.text), gridspec.Values{})
		if err == nil || !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), "tests.yaml:") {
			t.Errorf("%s: got %v, want %q and a place", behaviour, err, row.want)
		}
		if behaviour == "an endless alias" {
			continue
		}
		beyond := []string{"no processors", "a size beyond all", "a clock that is right", "a fault of no upgrade", "a fault of another node", "a fault of no reset"}
		if !slices.Contains(beyond, behaviour) && compiled.Validate(decoded(t, []byte(row.text))) == nil {
			t.Errorf("%s: the schema accepts it", behaviour)
		}
	}
}

// schema is the published schema, compiled by another implementation.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := gridspec.Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(gridspec.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(gridspec.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func document(t *testing.T, path string) any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, text)
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// FuzzParse checks that no text panics, and that the result is within the bounds that a runner relies on.
func FuzzParse(f *testing.F) {
	f.Add(ours)
	f.Add("- id: ubuntu-2404\n  name: Ubuntu\n  version: 24.04\n")
	f.Add("- name: x\n  installerSpec: {flannel: {version: __testver__, s3Override: __testdist__}}\n  numPrimaryNodes: 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := gridspec.Parse("f", strings.NewReader(text), gridspec.Values{Version: "1.2.3"})
		if (err == nil) == (file == nil) {
			t.Fatalf("%v, %v", file, err)
		}
		if err != nil {
			return
		}
		for _, test := range file.Tests {
			if test.Install == nil || test.Name == "" && test.ID == "" || test.CPU < 1 || test.Memory < 0 || test.Nodes() < 1 {
				t.Errorf("%+v", test)
			}
			for _, fault := range append(append(test.Kills, test.PowerCuts...), test.CutNetwork...) {
				if fault.Node < 1 || fault.Node > test.Nodes() || strings.ContainsAny(fault.Step, " '\n") || fault.After < 0 {
					t.Errorf("fault %+v of %d nodes", fault, test.Nodes())
				}
			}
		}
	})
}

// kURL's full.yaml has 74 tests. One of them has a key that its runner never knew.
func TestInvalidTestDoesNotStopOthers(t *testing.T) {
	const good = "- name: same\n  installerSpec: {kubernetes: {version: 1.36.3}}\n"
	for name, row := range map[string]struct {
		text         string
		tests, wrong int
		ids          string
	}{
		"a wrong key":        {good + "- name: same\n  installerSpec: {kubernetes: {version: 1}}\n  airgapp: true\n" + good, 2, 1, "same same-3"},
		"a wrong Installer":  {good + "- installerSpec: {kubernetes: {version: 1.36.3, x: y}}\n", 1, 1, "same"},
		"an entry as text":   {good + "- text\n" + good, 2, 1, "same same-2"},
		"two of them":        {"- name: a\n" + good + "- name: b\n  installerSpec: {}\n", 1, 2, "same"},
		"a wrong system":     {"- {id: ubuntu-2404, name: Ubuntu}\n- {id: \"!\", name: x}\n", 0, 1, ""},
		"all of them":        {"- name: a\n- name: b\n", 0, 2, ""},
		"a system in a list": {good + "- {id: ubuntu-2404, name: Ubuntu}\n", -1, 0, ""},
		"not a list":         {"name: a\n", -1, 0, ""},
		"not YAML":           {good + "- name: {\n", -1, 0, ""},
		"more than are kept": {good + "- name: x\n  installerSpec: {kubernetes: {version: 1, " + manyKeys() + "}}\n" + good, -1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := gridspec.Parse("tests.yaml", strings.NewReader(row.text), gridspec.Values{})
			if err == nil {
				t.Fatal("no mistake")
			}
			if row.tests < 0 {
				if f != nil {
					t.Errorf("got %+v", f)
				}
				return
			}
			if f == nil || len(f.Tests) != row.tests || f.Wrong != row.wrong {
				t.Fatalf("got %+v", f)
			}
			var ids []string
			for _, one := range f.Tests {
				ids = append(ids, one.ID)
			}
			if got := strings.Join(ids, " "); got != row.ids {
				t.Errorf("IDs %s, want %s", got, row.ids)
			}
		})
	}
}

// manyKeys has more invalid options than mistakes are kept.
func manyKeys() string {
	var keys []string
	for n := range 150 {
		keys = append(keys, "x"+strconv.Itoa(n)+": 1")
	}
	return strings.Join(keys, ", ")
}
