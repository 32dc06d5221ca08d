package template_test

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	gotemplate "text/template"

	"github.com/Masterminds/sprig/v3"

	"github.com/sealift/sealift/preflight/template"
)

// data is the data of specifications, and some kinds of value from YAML.
func data() map[string]any {
	return map[string]any{
		"IsUpgrade": true, "IsJoin": false, "PrimaryHosts": []string{"10.0.0.1", "10.0.0.2"}, "None": []string(nil),
		"Installer": map[string]any{"Name": "harbour", "Spec": map[string]any{
			"Rook":     map[string]any{"Version": "1.12.8", "MinimumNodeCount": 3, "Share": 0.5, "Size": uint64(7), "Null": nil},
			"Longhorn": map[string]any{},
		}},
		"Rows": []any{1, "two", nil, 2.5, true, map[string]any{"b": 1, "a": 2}},
	}
}

// functions are those of Sprig that depend only on their arguments.
func functions() map[string]any {
	all := sprig.TxtFuncMap()
	few := map[string]any{}
	for _, name := range []string{"default", "empty", "coalesce", "list", "dict", "get", "hasKey", "keys", "first", "last", "join", "split", "splitList", "trim", "trimSuffix", "upper", "lower",
		"quote", "squote", "ternary", "contains", "hasPrefix", "replace", "add", "sub", "mul", "max", "int", "int64", "float64", "toString", "semverCompare", "regexMatch", "cat", "indent", "nindent", "slice", "fail", "has", "until", "toJson"} {
		few[name] = all[name]
	}
	return few
}

const left = "{{kurl"

// both executes a template by this package and by text/template.
func both(text string) (ours, theirs string, ourErr, theirErr error) {
	var a, b strings.Builder
	ourErr = template.Execute(&a, "check", text, template.Options{Left: left, Functions: functions()}, data())
	t, theirErr := gotemplate.New("check").Delims(left, "}}").Funcs(functions()).Option("missingkey=zero").Parse(text)
	if theirErr == nil {
		theirErr = t.Execute(&b, data())
	}
	return a.String(), b.String(), ourErr, theirErr
}

// templates both execute, or both refuse.
var templates = []string{
	"", "text alone", "{{kurl .IsUpgrade }} {{kurl- .IsJoin -}}  x", "{{kurl/* nothing */}}", "{{ .P99 }} {{kurl .Installer.Name}}",
	"{{kurl if .IsUpgrade}}a{{kurl else}}b{{kurl end}}", "{{kurl if .IsJoin}}a{{kurl else if .IsUpgrade}}b{{kurl else}}c{{kurl end}}", "{{kurl if .None}}a{{kurl end}}",
	"{{kurl with .Installer.Spec.Rook}}{{kurl .Version}}{{kurl $.IsJoin}}{{kurl else}}none{{kurl end}}", "{{kurl with .Installer.Spec.Longhorn}}a{{kurl else with .PrimaryHosts}}{{kurl .}}{{kurl end}}",
	"{{kurl and .Installer.Spec.Longhorn.Version .Installer.Spec.Longhorn.UI | not }}", "{{kurl or (.IsJoin) (gt .Installer.Spec.Rook.MinimumNodeCount 2) }}",
	"{{kurl and 1 0 (fail `not evaluated`)}}{{kurl or 0 `x` (fail `not evaluated`)}}{{kurl 3 | and 2}}{{kurl and 0 nil}}",
	"{{kurl range .PrimaryHosts}}- {{kurl .}}:6783\n{{kurl end}}", "{{kurl range $i, $h := .PrimaryHosts}}{{kurl $i}}={{kurl $h}} {{kurl end}}", "{{kurl range .None}}a{{kurl else}}b{{kurl end}}",
	"{{kurl range $k, $v := .Installer.Spec.Rook}}{{kurl $k}}={{kurl $v}} {{kurl end}}", "{{kurl range 3}}{{kurl .}}{{kurl end}}", "{{kurl range $i := 2}}{{kurl $i}}{{kurl end}}", "{{kurl range $i, $j := 2}}x{{kurl end}}",
	"{{kurl range .Rows}}{{kurl if eq . `two`}}{{kurl continue}}{{kurl end}}{{kurl .}},{{kurl end}}", "{{kurl range $i, $r := .Rows}}{{kurl if gt $i 2}}{{kurl break}}{{kurl end}}{{kurl $r}},{{kurl end}}",
	"{{kurl range .Rows}}{{kurl .}} {{kurl end}}", "{{kurl range 1.5}}{{kurl end}}", "{{kurl range `text`}}{{kurl end}}", "{{kurl range .Missing}}x{{kurl else}}none{{kurl end}}",
	"{{kurl $x := 1}}{{kurl if true}}{{kurl $x = 2}}{{kurl $x := 3}}{{kurl end}}{{kurl $x}}", "{{kurl $i := 9}}{{kurl range $i = .PrimaryHosts}}{{kurl end}}{{kurl $i}}", "{{kurl $y}}",
	"{{kurl .Missing}} {{kurl .Installer.Spec.Rook.Null}} {{kurl $x := .Missing}}{{kurl $x.Field}} {{kurl (.Missing).Field}}", "{{kurl .Missing.Field}}", "{{kurl .Installer.Name.First}}",
	"{{kurl .Installer.Name 1}}", "{{kurl $x := .Missing}}a{{kurl $x.Field 1}}b{{kurl (.Missing).Field $x}}c{{kurl 1 | $x.Field}}", "{{kurl $x := .Missing}}{{kurl $x 1}}", "{{kurl 1 2}}", "{{kurl nil}}", "{{kurl nofunction}}", "{{kurl if}}", "{{kurl", "{{kurl end}}",
	"{{kurl define `a`}}<{{kurl .}}{{kurl $.}}>{{kurl end}}{{kurl template `a` .IsJoin}}{{kurl template `a`}}", "{{kurl block `b` 7}}{{kurl .}}{{kurl end}}", "{{kurl template `missing`}}", "{{kurl define `only`}}x{{kurl end}}",
	"{{kurl define `a`}}{{kurl end}}{{kurl define `a`}}1{{kurl end}}{{kurl template `a`}}",
	"{{kurl eq 1 1 2}} {{kurl eq 2 1 2}} {{kurl ne 1 2}} {{kurl lt 1 2}} {{kurl le 2 2}} {{kurl gt 1.5 1.0}} {{kurl ge `b` `a`}} {{kurl eq true true}} {{kurl eq nil .Missing}}", "{{kurl eq 1 `1`}}", "{{kurl lt 1 1.5}}", "{{kurl lt true false}}", "{{kurl eq 1}}",
	"{{kurl eq .Installer.Spec.Rook.Size 7}} {{kurl lt .Installer.Spec.Rook.Size 8}} {{kurl gt 8 .Installer.Spec.Rook.Size}} {{kurl lt -1 .Installer.Spec.Rook.Size}}", "{{kurl eq .None .None}}", "{{kurl eq .Rows .Rows}}", "{{kurl eq .Installer .Missing}}",
	"{{kurl len .PrimaryHosts}} {{kurl len `four`}} {{kurl len .Installer.Spec}}", "{{kurl len 4}}", "{{kurl len nil}}", "{{kurl index .PrimaryHosts 1}} {{kurl index .Installer.Spec `Rook` `Version`}} {{kurl index .Installer `Missing`}} {{kurl index `abc` 1}}",
	"{{kurl index .PrimaryHosts 2}}", "{{kurl index .PrimaryHosts -1}}", "{{kurl index .PrimaryHosts `a`}}", "{{kurl index .Installer 1}}", "{{kurl index 1 1}}", "{{kurl index nil}}", "{{kurl index .Rows 5 `a`}}",
	"{{kurl print 1 `a` 2 3}} {{kurl printf `%q %5.1f %v` `x` 1.25 .PrimaryHosts}} {{kurl println 1}}", "{{kurl printf}}", "{{kurl html `<a>`}} {{kurl js `'`}} {{kurl urlquery `a b`}}", "{{kurl not 0}}{{kurl not `a`}}{{kurl not}}",
	"{{kurl .Installer.Name | upper | printf `%s-%s` `x`}}", "{{kurl trimSuffix `.8` .Installer.Spec.Rook.Version}}", "{{kurl trimSuffix 1 `a`}}", "{{kurl trim .Missing}}", "{{kurl trim nil}}", "{{kurl trim}}", "{{kurl trim `a` `b`}}", "{{kurl until `a`}}", "{{kurl until 1.0}}{{kurl until 2}}",
	"{{kurl semverCompare `>=1.12` .Installer.Spec.Rook.Version}}", "{{kurl semverCompare `nonsense` `x`}}", "{{kurl default 5 .Missing}} {{kurl .Installer.Spec.Rook.Null | default `d`}}", "{{kurl (dict `a` (list 1 2)).a}} {{kurl (list 1 2) | first}} {{kurl get (dict `x` 1) `y`}}", "{{kurl add 1 2 .Installer.Spec.Rook.MinimumNodeCount}}",
	"{{kurl 1}} {{kurl 1.0}} {{kurl 0x1F}} {{kurl 'a'}} {{kurl 1e3}} {{kurl true}} {{kurl `raw`}} {{kurl \"\\n\"}} {{kurl 0x1p4}}", "{{kurl 18446744073709551615}}", "{{kurl 1i}}", "{{kurl ternary `a` `b` .IsUpgrade}}", "{{kurl ternary `a` `b` 1}}", "{{kurl `8800`}}", "{{kurl fail `refused`}}",
	"{{kurl break}}", "{{kurl continue}}", "{{kurl first .None}}", "{{kurl join `,` .PrimaryHosts | quote}}", "{{kurl slice .PrimaryHosts 1}}", "{{kurl if .Rows}}{{kurl len .Rows}}{{kurl end}}", "{{kurl print nil}}", "{{kurl print}}", "{{kurl quote .Missing 1}}",
}

// TestTemplatesMatchGo holds this package against text/template: the same output, or an error from both.
func TestTemplatesMatchGo(t *testing.T) {
	for _, text := range templates {
		ours, theirs, ourErr, theirErr := both(text)
		if (ourErr == nil) != (theirErr == nil) || ourErr == nil && ours != theirs {
			t.Errorf("%s\n got %q, %v\nwant %q, %v", text, ours, ourErr, theirs, theirErr)
		}
	}
}

// TestUnsupportedTemplateActionsAreRefused lists what text/template would execute.
func TestUnsupportedTemplateActionsAreRefused(t *testing.T) {
	with := functions()
	maps.Copy(with, map[string]any{"semver": sprig.TxtFuncMap()["semver"], "counter": func() any { return struct{ N int }{1} }, "same": func() any { return strings.ToUpper }})
	for text, want := range map[string]string{
		"{{kurl (semver `1.2.3`).Major}}": "cannot evaluate field Major", // a method or a field of a struct
		"{{kurl (counter).N}}":            "cannot evaluate field N",
		"{{kurl call same `x`}}":          `"call" not defined`,
		"{{kurl same}}":                   "cannot be printed",
		"{{kurl define `a`}}{{kurl template `a`}}{{kurl end}}{{kurl template `a`}}": "more than 1000 deep",
	} {
		err := template.Execute(new(strings.Builder), "check", text, template.Options{Left: left, Functions: with}, data())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func TestErrorsNamePosition(t *testing.T) {
	err := template.Execute(new(strings.Builder), "rook", "a\n{{kurl if true}}{{kurl .Missing.Field}}{{kurl end}}", template.Options{Left: left}, data())
	if err == nil || !strings.Contains(err.Error(), "rook:2:") || !strings.Contains(err.Error(), "<.Missing.Field>") || strings.Count(err.Error(), "executing") != 1 {
		t.Error(err)
	}
}

// TestPrintSeesEveryPrintedValue has values that only control a template beside printed ones.
func TestPrintSeesEveryPrintedValue(t *testing.T) {
	var out strings.Builder
	var printed []any
	o := template.Options{Print: func(value any) any { printed = append(printed, value); return len(printed) }}
	err := template.Execute(&out, "check", "{{if .IsUpgrade}}{{$x := 7}}{{$x}}{{with .None}}{{else}}{{.Missing}}{{end}}{{end}}{{define `a`}}{{print 1 2}}{{end}}{{template `a`}}", o, data())
	if err != nil || out.String() != "123" || !slices.Equal(printed, []any{7, nil, "1 2"}) {
		t.Errorf("%q, %v, %v", out.String(), printed, err)
	}
}

func TestWriterMayRefuse(t *testing.T) {
	refused := errors.New("full")
	for _, text := range []string{"text", "{{1}}", "{{range 2}}x{{end}}"} {
		if err := template.Execute(refusing{refused}, "check", text, template.Options{}, nil); !errors.Is(err, refused) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

// large are numbers that keep both implementations busy.
var large = regexp.MustCompile(`[0-9][0-9_]{2}|[0-9][eExXpPbBoO]`)

func FuzzExecute(f *testing.F) {
	for _, text := range templates {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if large.MatchString(text) || strings.Count(text, "range") > 2 {
			t.Skip()
		}
		ours, theirs, ourErr, theirErr := both(text)
		if theirErr == nil && (ourErr != nil || ours != theirs) {
			t.Errorf("got %q, %v\nwant %q", ours, ourErr, theirs)
		}
	})
}
