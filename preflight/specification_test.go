package preflight_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

func installer(t testing.TB, text string) *spec.Installer {
	t.Helper()
	i, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: harbour}\nspec:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

const someSpec = "  rook:\n    version: 1.12.8\n    minimumNodeCount: 3\n    blockDeviceFilter: 'sd[b-z]'\n    isBlockStorageEnabled: true\n  kurl:\n    airgap: true\n" +
	"  contour: {version: 1.34.0, httpPort: 80, httpsPort: 443, tlsMinimumProtocolVersion: '1.3'}\n"

func TestAirGapMayBeUnset(t *testing.T) {
	s := preflight.Specification{Name: "kotsadm", Kind: preflight.HostPreflight, Text: []byte("spec: {collectors: [{http: {exclude: '{{kurl .Installer.Spec.Kurl.Airgap }}'}}]}\n")}
	for airGap, want := range map[bool]string{true: "exclude: 'true'", false: "exclude: 'false'"} {
		got, err := s.Render(preflight.Node{AirGap: airGap}, installer(t, "  kotsadm: {version: 1.86.0}\n"))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%t: %v, want %s in\n%s", airGap, err, want, got)
		}
	}
}

func TestSpecificationTemplatesAreRendered(t *testing.T) {
	join := preflight.Node{Join: true, PrimaryHosts: []string{"10.0.0.1"}, SecondaryHosts: []string{"10.0.0.2"}}
	tests := map[string]struct {
		text string
		node preflight.Node
		want string // below spec
	}{
		"text without an action": {"{collectors: [{cpu: {}}]}", join, "{collectors: [{cpu: {}}]}"},
		"an action in quotes":    {`{a: "{{kurl .IsUpgrade }}"}`, join, `{a: "false"}`},
		"an action without quotes": {`{a: {{kurl .Installer.Spec.Kurl.Airgap }}, b: {{kurl .Installer.Spec.Rook.MinimumNodeCount}}}`, join,
			`{a: true, b: 3}`},
		"Troubleshoot's own templates are left": {`{a: "{{ .P99 }} of {{kurl .Installer.Spec.Rook.Version}}"}`, join, `{a: "{{ .P99 }} of 1.12.8"}`},
		"a condition over options":              {`{a: "{{kurl or (.IsUpgrade) (gt .Installer.Spec.Rook.MinimumNodeCount 2) }}"}`, join, `{a: "true"}`},
		"an option that is not set":             {`{a: {{kurl and .Installer.Spec.Longhorn.Version .Installer.Spec.Longhorn.UIBindPort | not }}}`, join, `{a: true}`},
		"names that kURL's types capitalise":    {`{a: "{{kurl with .Installer.Spec.Contour}}{{kurl .HTTPPort}} {{kurl .HTTPSPort}} {{kurl .TLSMinimumProtocolVersion}} {{kurl .S3Override}}{{kurl end}}"}`, join, `{a: "80 443 1.3 "}`},
		"an add-on that is not in the spec":     {`{a: "{{kurl .Installer.Spec.Prometheus.Version }}"}`, join, `{a: ""}`},
		"branches that are not YAML before": {"\n    a:\n    {{kurl if .Installer.Spec.Rook.BlockDeviceFilter }}\n    - {{kurl .Installer.Spec.Rook.BlockDeviceFilter }}\n    {{kurl else}}\n    - .*\n    {{kurl end}}", join,
			`{a: ["sd[b-z]"]}`},
		"a loop over other nodes": {"\n    a:\n    {{kurl- range .RemoteHosts}}\n    - address: '{{kurl . }}:6783'\n    {{kurl- end}}", join,
			`{a: [{address: "10.0.0.1:6783"}, {address: "10.0.0.2:6783"}]}`},
		"functions of sprig":             {`{a: {{kurl semverCompare ">=1.12" .Installer.Spec.Rook.Version }}, b: "{{kurl trimSuffix ".8" .Installer.Spec.Rook.Version }}"}`, join, `{a: true, b: "1.12"}`},
		"a value that brings its quotes": {`{a: {{kurl .Installer.Spec.Rook.Version | quote }}}`, join, `{a: "1.12.8"}`},
		"a port that is text":            {`{a: {{kurl "8800" }}}`, join, `{a: 8800}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := preflight.Specification{Name: "rook", Kind: preflight.HostPreflight, Text: []byte("kind: HostPreflight\nspec: " + tt.text + "\n")}
			got, err := s.Render(tt.node, installer(t, someSpec))
			if err != nil {
				t.Fatal(err)
			}
			var have, want map[string]any
			if err := yaml.Unmarshal(got, &have); err != nil {
				t.Fatal(err)
			}
			head := "apiVersion: troubleshoot.sh/v1beta2\nkind: HostPreflight\nmetadata: {name: rook}\nspec: "
			if err := yaml.Unmarshal([]byte(head+tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("rendered (-want +got):\n%s\n%s", diff, got)
			}
		})
	}
}

// hostile are values with which a specification would become another one, were they pasted into its text.
func hostile() []string {
	return []string{
		"sd\n  collectors:\n  - run: {command: touch, args: [/tmp/owned]}", `x"}, {run: {command: touch}}`, "x' }\n", "# no more", "a: b", "- a", "*anchor", "&anchor x",
		"!!binary aGk=", "{{kurl env \"PATH\"}}", "{{ .P99 }}", "$(touch /tmp/owned)", "`touch /tmp/owned`", "---\nkind: Other", "sealift-value-0-", "null", "\t", "[1, 2]", "{a: b}", "x\u0085y",
	}
}

func TestInstallerValuesAreText(t *testing.T) {
	const text = `
kind: HostPreflight
spec:
  collectors:
  - blockDevices: {plain: {{kurl .Installer.Spec.Rook.BlockDeviceFilter }}, quoted: "{{kurl .Installer.Spec.Rook.BlockDeviceFilter }}", single: '<{{kurl .Installer.Spec.Rook.BlockDeviceFilter }}>'}
`
	for _, value := range hostile() {
		quoted, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		i := installer(t, "  rook:\n    version: 1.0.0\n    blockDeviceFilter: "+strings.ReplaceAll(string(quoted), "\n", "\n      ")+"\n")
		s := preflight.Specification{Name: "rook", Kind: preflight.HostPreflight, Text: []byte(text)}
		got, err := s.Render(preflight.Node{}, i)
		if err != nil {
			t.Errorf("%q: %v", value, err)
			continue
		}
		var have struct {
			Spec struct {
				Collectors []map[string]map[string]any
			}
		}
		if err := yaml.Unmarshal(got, &have); err != nil {
			t.Errorf("%q: %v", value, err)
			continue
		}
		if n := len(have.Spec.Collectors); n != 1 || len(have.Spec.Collectors[0]) != 1 || len(have.Spec.Collectors[0]["blockDevices"]) != 3 {
			t.Errorf("%q changed what the specification says:\n%s", value, got)
			continue
		}
		settings := have.Spec.Collectors[0]["blockDevices"]
		if settings["quoted"] != value || settings["single"] != "<"+value+">" {
			t.Errorf("%q became %q", value, settings)
		}
	}
}

// TestOtherDocumentsArePassedOn has what a file for Troubleshoot may have beside a SupportBundle, or instead of one.
func TestOtherDocumentsArePassedOn(t *testing.T) {
	const others = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: of-a-site\n---\napiVersion: troubleshoot.sh/v1beta2\nkind: Redactor\nspec: {}\n"
	s := preflight.Specification{Name: "x", Kind: preflight.SupportBundle, Text: []byte(others + "---\nkind: SupportBundle\n"), Others: []string{"Secret", "Redactor"}}
	out, err := s.Render(preflight.Node{}, installer(t, someSpec))
	if want := others + "---\nkind: SupportBundle\napiVersion: troubleshoot.sh/v1beta2\nmetadata:\n  name: x\n"; err != nil || string(out) != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, out, want)
	}
}

func TestInvalidSpecificationsAreRefused(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a template that does not parse":   {"{{kurl if }}", "missing value for if"},
		"a field that nodes do not have":   {"{{kurl .Nodes.First }}", "nil"},
		"YAML that does not parse":         {"a: [", "did not find"},
		"a list":                           {"- a", "must be a mapping"},
		"another kind":                     {"kind: Pod", "its kind is Pod"},
		"a function that reads the host":   {`{{kurl env "HOME" }}`, `"env" not defined`},
		"what grows beyond all measure":    {`{{kurl range until 3000000 }}aa{{kurl end}}`, "larger than"},
		"a template that comes to nothing": {"{{kurl if .IsUpgrade }}kind: Pod{{kurl end}}\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := preflight.Specification{Name: "x", Kind: preflight.HostPreflight, Text: []byte(tt.text)}
			out, err := s.Render(preflight.Node{}, installer(t, someSpec))
			if tt.want == "" {
				if err != nil || len(out) > 0 {
					t.Errorf("got %q, %v", out, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q\n%.300s", err, tt.want, out)
			}
		})
	}
}

// TestTemplatesInValuesAddNoFields has templates that would make another document, were they run over its text.
func TestTemplatesInValuesAddNoFields(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a value":                       {`{a: "{{kurl .Installer.Spec.Rook.Version }} is {{kurl if .IsUpgrade}}old{{kurl else}}new{{kurl end}}"}`, `{a: 1.12.8 is new}`},
		"a value that comes to nothing": {`{a: "{{kurl if .IsUpgrade}}x{{kurl end}}"}`, `{a: ""}`},
		"a key stays as it is":          {`{"ru{{kurl if false}}x{{kurl end}}n": 1}`, `{"ru{{kurl if false}}x{{kurl end}}n": 1}`},
		"a list in a text":              {`{a: '{{kurl print "x\n- run: y" }}'}`, `{a: "x\n- run: y"}`},
		"what looks like a number":      {`{a: "{{kurl 7}}"}`, `{a: "7"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := preflight.Specification{Name: "installer", Kind: preflight.HostPreflight, Values: true, Text: []byte("kind: HostPreflight\nspec: " + tt.text + "\n")}
			got, err := s.Render(preflight.Node{}, installer(t, someSpec))
			if err != nil {
				t.Fatal(err)
			}
			var have, want struct{ Spec any }
			if err := errors.Join(yaml.Unmarshal(got, &have), yaml.Unmarshal([]byte("spec: "+tt.want), &want)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, got)
			}
		})
	}
	for name, text := range map[string]string{
		"a template over two values": `{a: "{{kurl /*", b: "*/}}"}`,
		"what grows beyond measure":  "[" + strings.Repeat(`"{{kurl repeat 3000000 \"x\"}}", `, 3) + "]",
	} {
		s := preflight.Specification{Name: "installer", Kind: preflight.HostPreflight, Values: true, Text: []byte("kind: HostPreflight\nspec: " + text + "\n")}
		if got, err := s.Render(preflight.Node{}, installer(t, someSpec)); err == nil {
			t.Errorf("%s became %.200s", name, got)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add("kind: HostPreflight\nspec: {collectors: [{a: '{{kurl .Installer.Spec.Rook.BlockDeviceFilter }}'}]}", "sd[b-z]")
	f.Add("spec:\n{{kurl range .RemoteHosts}}\n- {{kurl .}}\n{{kurl end}}", "x\n- y")
	f.Add("spec:\n{{kurl range .RemoteHosts}}\n- {{kurl .}}\n{{kurl end}}", "\n-  y")
	f.Fuzz(func(t *testing.T, text, value string) {
		i := &spec.Installer{AddOns: []spec.AddOn{{Name: "rook", Key: "rook", Version: "1", Options: spec.Options{"blockDeviceFilter": value}}}}
		s := preflight.Specification{Name: "rook", Kind: preflight.HostPreflight, Text: []byte(text)}
		out, err := s.Render(preflight.Node{PrimaryHosts: []string{value}}, i)
		if err != nil {
			return
		}
		decoder := yaml.NewDecoder(strings.NewReader(string(out)))
		for {
			var document yaml.Node
			err := decoder.Decode(&document)
			if err != nil {
				if err.Error() != "EOF" {
					t.Fatalf("rendered what cannot be read: %v\n%s", err, out)
				}
				return
			}
		}
	})
}
