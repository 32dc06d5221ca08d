package lifecycle_test

import (
	"bytes"
	"os"
	"strings"

	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/lifecycle"
)

// metrics is the page of the operator's metrics.
func (s *site) metrics(o *lifecycle.Operator) string {
	s.Helper()
	own, _ := o.Metrics()
	families, err := own.Gather()
	if err != nil {
		s.Fatal(err)
	}
	var out bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			s.Fatal(err)
		}
	}
	return out.String()
}

// testEdits: one section is one run of its module, global values and flags are everything, and the rest is nothing.
func testEdits(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\nbEnabled: true\n")
	s.hook("global/g.sh", "beforeAll: 1", "")
	s.hook("modules/a/hooks/h.sh", "onStartup: 1\nbeforeHelm: 1\nkubernetes: ["+s.maps("")+"]", printValues("CONFIG_VALUES_PATH", "."))
	s.hook("modules/b/hooks/h.sh", "beforeHelm: 1", "")
	s.config(map[string]any{"global": "x: 1\n", "a": "z: 1\n"})
	o := s.start()
	read := `  {"a":{"z":1},"global":{"x":1}}`
	s.traced("g.sh beforeAll", "a/hooks/h.sh onStartup", read, "a/hooks/h.sh maps:0", read, "a/hooks/h.sh beforeHelm", read, "b/hooks/h.sh beforeHelm")
	s.idle(o)
	s.config(map[string]any{"a": "z: 2\n"})
	s.traced("a/hooks/h.sh beforeHelm", `  {"a":{"z":2},"global":{"x":1}}`)
	s.idle(o)
	s.config(map[string]any{"a": "# the same\n{z: 2}\n", "unknown": "u: 1\n"})
	s.config(map[string]any{"global": "x: 2\n"})
	s.traced("g.sh beforeAll", "a/hooks/h.sh beforeHelm", `  {"a":{"z":2},"global":{"x":2}}`, "b/hooks/h.sh beforeHelm")
	s.idle(o)
	s.config(map[string]any{"bEnabled": "false", "a": "z: 3\n"})
	s.traced("g.sh beforeAll", "a/hooks/h.sh beforeHelm", `  {"a":{"z":3},"global":{"x":2}}`)
}

// testOwnWrites: a hook's write is active at once, and does not count as an edit. An event's hook that changes values has its
// module run once; an administrator's edit at the same time is kept.
func testOwnWrites(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.hook("modules/a/hooks/b.sh", "beforeHelm: 1", printValues("CONFIG_VALUES_PATH", ".a"))
	s.hook("modules/a/hooks/h.sh", "onStartup: 1\nkubernetes: ["+s.maps("")+"]", `
case $(jq -r '.[0] | .binding + (.type // "")' $BINDING_CONTEXT_PATH) in
onStartup) echo '[{"op":"add","path":"/a/password","value":"first"}]' > $CONFIG_VALUES_JSON_PATCH_PATH;;
mapsEvent) echo "{\"op\":\"add\",\"path\":\"/a/seen\",\"value\":\"$(jq -r '.[-1].object.data.x' $BINDING_CONTEXT_PATH)\"}" > $CONFIG_VALUES_JSON_PATCH_PATH;;
esac`)
	o := s.start()
	s.traced("a/hooks/h.sh onStartup", "a/hooks/h.sh maps:0", "a/hooks/b.sh beforeHelm", `  {"password":"first"}`)
	s.idle(o)
	s.seen("one", "1")
	s.traced("a/hooks/h.sh maps:one", "a/hooks/b.sh beforeHelm", `  {"password":"first","seen":"1"}`)
	s.idle(o)
	s.seen("one", "1") // no change: no event
	s.config(map[string]any{"a": "password: first\nseen: '1'\nmine: 1\n"})
	s.traced("a/hooks/b.sh beforeHelm", `  {"mine":1,"password":"first","seen":"1"}`)
	s.idle(o)
	s.seen("two", "1") // the patch changes nothing
	s.traced("a/hooks/h.sh maps:two")
	s.idle(o)
	s.traced()
	if got := asJSON(s.live()); got != `{"a":{"mine":1,"password":"first","seen":"1"}}` {
		s.Errorf("the ConfigMap is %s", got)
	}
}

func testWrongConfig(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.file("modules/a/openapi/config-values.yaml", "type: object\nrequired: [host]\nproperties: {host: {type: string}, port: {type: integer, default: 80}}\n")
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1", printValues("VALUES_PATH", ".a"))
	if _, err := s.load(); err == nil || !strings.Contains(err.Error(), "a.host") {
		s.Errorf("without a required value: %v", err)
	}
	s.config(map[string]any{"a": "host: here\n"})
	o := s.start()
	s.traced("a/hooks/h.sh beforeHelm", `  {"host":"here","port":80}`)
	for i, edit := range []map[string]any{{"a": "host: 1\n"}, {"a": "{"}, {"a": "host: here\nhots: x\n"}, {"a": "host: x\n", "bad-key": "x: 1\n"}, {"bad-key": nil, "a": "host: x\n", "aEnabled": "perhaps"}} {
		s.config(edit)
		s.until("the edit is refused", func() bool { return strings.Count(s.log.String(), "the ConfigMap was changed and is wrong") == i+1 })
	}
	s.idle(o)
	s.traced()
	if text := s.metrics(o); !strings.Contains(text, "addon_operator_config_values_errors_total 5") {
		s.Error(text)
	}
	s.config(map[string]any{"aEnabled": nil})
	s.traced("a/hooks/h.sh beforeHelm", `  {"host":"x","port":80}`)
}

// testSchemas: a patch with invalid values fails its hook, and the chart waits for its required values.
func testSchemas(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.file("global/openapi/config-values.yaml", "type: object\nrequired: [project, clusterName]\nminProperties: 2\nproperties: {project: {type: string}, clusterName: {type: string}, clusterHostname: {type: string}, discovery: {type: object}}\n")
	s.file("modules/a/openapi/values.yaml", "type: object\nx-required-for-helm: [one, two]\nproperties: {one: {type: string}, two: {type: string}}\n")
	s.config(map[string]any{"global": "project: p\nclusterName: c\n"})
	s.hook("global/g.sh", "beforeAll: 1", `[ -e $TRACE.go ] && exit 0
echo '[{"op":"add", "path":"/global/clusterHostname", "value":{}}]' > $CONFIG_VALUES_JSON_PATCH_PATH`)
	s.hook("modules/a/hooks/one.sh", "beforeHelm: 1", `echo '{"op":"add","path":"/a/one","value":"1"}' > $VALUES_JSON_PATCH_PATH`)
	s.hook("modules/a/hooks/two.sh", "beforeHelm: 2", `[ -e $TRACE.two ] || exit 0; echo '{"op":"add","path":"/a/two","value":"2"}' > $VALUES_JSON_PATCH_PATH`)
	s.file("modules/a/templates/x.yaml", "")
	o := s.run()
	s.until("the hook has failed", func() bool { return strings.Contains(s.log.String(), "global.clusterHostname") })
	s.touch(".go")
	s.until("values are missing", func() bool {
		o.Engine().Queues().Wake(binding.MainQueue)
		return strings.Contains(s.log.String(), "a.two")
	})
	s.touch(".two")
	s.until("ready", func() bool { o.Engine().Queues().Wake(binding.MainQueue); return o.Ready() })
	if got := asJSON(s.releases.last["a"]); got != `{"a":{"one":"1","two":"2"},"global":{"clusterName":"c","project":"p"}}` {
		s.Error(got)
	}
	if _, has := s.live()["global"].(map[string]any)["clusterHostname"]; has {
		s.Error("a refused patch is in the ConfigMap")
	}
	if text := s.metrics(o); !strings.Contains(text, `addon_operator_global_hook_run_errors_total{activation="onStartup",binding="beforeAll",hook="g.sh",queue="main"}`) {
		s.Error(text)
	}
}

// testRules: rules in CEL hold at the start, in edits of the ConfigMap, for patches of hooks, and before Helm. Those about
// changes compare with the active configuration.
func testRules(s *site) {
	s.file("modules/values.yaml", "aEnabled: true\n")
	s.file("modules/a/openapi/config-values.yaml", `
type: object
properties: {replicas: {type: integer}, domain: {type: string}}
x-deckhouse-validations:
- {expression: self.replicas < 3, message: too many replicas}
- {expression: self.domain == oldSelf.domain, message: the domain stays}
`)
	s.file("modules/a/openapi/values.yaml", `
x-extend: {schema: config-values.yaml}
type: object
properties: {found: {type: string}, size: {type: integer, default: 9}}
x-deckhouse-validations:
- {expression: self.found != 'wrong', message: wrong is found}
- {expression: self.size < 5, message: too large for Helm}
`)
	s.file("modules/a/templates/x.yaml", "")
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1", `[ -e $TRACE.found ] && value=right || value=wrong
[ -e $TRACE.size ] && echo '{"op":"add","path":"/a/size","value":4}' > $VALUES_JSON_PATCH_PATH
[ -e $TRACE.any ] && echo '{"op":"add","path":"/a/found","value":"'$value'"}' >> $VALUES_JSON_PATCH_PATH
true`)
	s.config(map[string]any{"a": "replicas: 3\n"})
	if _, err := s.load(); err == nil || !strings.Contains(err.Error(), "a: too many replicas") {
		s.Errorf("at the start: %v", err)
	}
	s.config(map[string]any{"a": "{replicas: 2, domain: one}\n"})
	o := s.run()
	says := func(text string) {
		s.Helper()
		s.until(text, func() bool {
			o.Engine().Queues().Wake(binding.MainQueue)
			return strings.Contains(s.log.String(), text)
		})
	}
	says("values before Helm: a: too large for Helm")
	s.touch(".any")
	s.touch(".size")
	says("a: wrong is found")
	s.touch(".found")
	s.until("ready", func() bool { o.Engine().Queues().Wake(binding.MainQueue); return o.Ready() })
	s.config(map[string]any{"a": "{replicas: 5, domain: one}\n"})
	says("a: too many replicas")
	s.config(map[string]any{"a": "{replicas: 1, domain: two}\n"})
	says("a: the domain stays")
	if got, err := o.Values("a", true); err != nil || asJSON(got) != `{"domain":"one","replicas":2}` {
		s.Errorf("in force is %s, %v", asJSON(got), err)
	}
}

// testUnwaitedFlags: a synchronization in a queue of its own may be after the discovery of modules. Its flags count all the same.
func testUnwaitedFlags(s *site) {
	s.hook("global/g.sh", "kubernetes: ["+s.maps(", queue: side, waitForSynchronization: false")+"]", `until [ -e $TRACE.go ]; do sleep 0.02; done
echo '{"op":"add","path":"/aEnabled","value":true}' > $CONFIG_VALUES_JSON_PATCH_PATH
echo '{"op":"add","path":"/bEnabled","value":true}' > $VALUES_JSON_PATCH_PATH`)
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1", "")
	s.hook("modules/b/hooks/h.sh", "beforeHelm: 1", "")
	s.start()
	s.touch(".go")
	s.traced("g.sh maps:0", "a/hooks/h.sh beforeHelm", "b/hooks/h.sh beforeHelm")
}

func (s *site) touch(suffix string) {
	s.Helper()
	if err := os.WriteFile(s.trace+suffix, nil, 0o600); err != nil {
		s.Fatal(err)
	}
}

// testDefinitions: the kinds of all modules exist before the first module runs, and live conversions stay.
func testDefinitions(s *site) {
	definition := func(kind, more string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + kind + "s." + s.namespace + ".org}\nspec: {group: " + s.namespace +
			".org, scope: Cluster, names: {kind: " + strings.ToUpper(kind[:1]) + kind[1:] + ", plural: " + kind + "s}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object" + more + "}}}]}\n"
	}
	s.file("modules/values.yaml", "aEnabled: true\nbEnabled: true\n")
	s.hook("modules/a/hooks/h.sh", "beforeHelm: 1\nkubernetes: [{name: gears, kind: gear, apiVersion: "+s.namespace+".org/v1}]", "")
	s.file("modules/b/crds/gears.yaml", definition("gear", ""))
	s.file("modules/b/crds/doc-gears.yaml", "nothing: to read\n")
	s.apply(strings.Replace(definition("wheel", ""), "versions:", "conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://127.0.0.1:1/'}}}, versions:", 1))
	s.file("modules/b/crds/wheels.yaml", definition("wheel", ", properties: {size: {type: integer}}"))
	s.start()
	s.traced("a/hooks/h.sh gears:0", "a/hooks/h.sh beforeHelm")
	ref := kube.Ref{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	objects, err := s.cluster.Objects(s.Context(), ref)
	if err != nil {
		s.Fatal(err)
	}
	wheel, err := objects.Get(s.Context(), "wheels."+s.namespace+".org", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	spec := asJSON(wheel.Object["spec"])
	if !strings.Contains(spec, `"strategy":"Webhook"`) || !strings.Contains(spec, `"size":`) || wheel.GetLabels()["heritage"] != "addon-operator" {
		s.Errorf("%v %s", wheel.GetLabels(), spec)
	}
	if log := s.log.String(); strings.Contains(log, "failed") {
		s.Error(log)
	}
}
