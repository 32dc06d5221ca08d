package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/ocm"
)

func readYAML(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

const (
	job      = "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, status: {conditions: [{type: Suspended, status: 'False'}, {type: TYPE, status: 'True'}]}}"
	bareJob  = "{apiVersion: batch/v1, kind: Job, metadata: {name: j}}"
	settings = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {state: done, count: '3'}}"
)

func TestRulesSetConditions(t *testing.T) {
	for name, tt := range map[string]struct{ rules, object, want string }{
		"a Job that is complete":  {"[{type: WellKnownConditions, condition: Complete}]", strings.Replace(job, "TYPE", "Complete", 1), "Complete True ConditionRuleEvaluated Job is finished"},
		"a Job that failed":       {"[{type: WellKnownConditions, condition: Complete}]", strings.Replace(job, "TYPE", "Failed", 1), "Complete True ConditionRuleEvaluated Job is finished"},
		"a Job that runs":         {"[{type: WellKnownConditions, condition: Complete}]", strings.Replace(job, "TYPE", "SuccessCriteriaMet", 1), "Complete False ConditionRuleEvaluated Job is not finished"},
		"a Job without a status":  {"[{type: WellKnownConditions, condition: Complete}]", bareJob, "Complete False ConditionRuleExpressionError no such key: status"},
		"a Pod that ended":        {"[{type: WellKnownConditions, condition: Complete}]", "{apiVersion: v1, kind: Pod, status: {phase: Failed}}", "Complete True ConditionRuleEvaluated Pod is in phase Failed"},
		"a Pod without a status":  {"[{type: WellKnownConditions, condition: Complete}]", "{apiVersion: v1, kind: Pod}", "Complete False ConditionRuleExpressionError no such key: status"},
		"a text of one's own":     {"[{type: WellKnownConditions, condition: Complete, message: so it is}]", strings.Replace(job, "TYPE", "Complete", 1), "Complete True ConditionRuleEvaluated so it is"},
		"a kind without rules":    {"[{type: WellKnownConditions, condition: Complete}]", settings, ""},
		"another condition":       {"[{type: WellKnownConditions, condition: Ready}]", bareJob, ""},
		"expressions":             {`[{type: CEL, condition: Done, celExpressions: ["object.data.state == 'done'", "int(object.data.count) > 2"]}]`, settings, "Done True ConditionRuleEvaluated Manifest is Done"},
		"one is false":            {`[{type: CEL, condition: Done, celExpressions: ["object.data.state == 'done'", "int(object.data.count) > 3"]}]`, settings, "Done False ConditionRuleEvaluated Manifest is not Done"},
		"a text by an expression": {`[{type: CEL, condition: Done, celExpressions: ["true"], messageExpression: "result ? object.data.state : 'no'"}]`, settings, "Done True ConditionRuleEvaluated done"},
		"a text that is empty":    {`[{type: CEL, condition: Done, celExpressions: ["true"], message: yes it is, messageExpression: "''"}]`, settings, "Done True ConditionRuleEvaluated yes it is"},
		"a text that is a number": {`[{type: CEL, condition: Done, celExpressions: ["true"], messageExpression: "1"}]`, settings, "Done True ConditionRuleEvaluated expected message expression to have a string result, got int64"},
		"a field that is missing": {`[{type: CEL, condition: Done, celExpressions: ["object.status.ready"]}]`, settings, "Done False ConditionRuleExpressionError no such key: status"},
		"no bool":                 {`[{type: CEL, condition: Done, celExpressions: ["object.data.state"]}]`, settings, "Done False ConditionRuleExpressionError expected bool result, got string"},
		"no CEL":                  {`[{type: CEL, condition: Done, celExpressions: ["1 +"]}]`, settings, `Done False ConditionRuleExpressionError CEL expression "1 +": ERROR`},
		"no CEL in the text":      {`[{type: CEL, condition: Done, celExpressions: ["true"], messageExpression: "badcel"}]`, settings, "Done True ConditionRuleEvaluated ERROR: <input>:1:1: undeclared reference to 'badcel' (in container '')"},
		"statuses that are none":  {`[{type: CEL, condition: Done, celExpressions: ["!hasConditions({}) && !hasConditions('badtype') && !hasConditions({'conditions': []}) && !hasConditions({'conditions': null})"]}]`, settings, "Done True ConditionRuleEvaluated Manifest is Done"},
		"an unknown type":         {"[{type: Guess, condition: Done}]", settings, "Done Unknown ConditionRuleInvalid unrecognized condition rule type Guess; use CEL or WellKnownConditions"},
		"without an end":          {`[{type: CEL, condition: Done, celExpressions: ["ENDLESS"]}]`, settings, "Done False ConditionRuleExpressionError "},
		"two rules":               {`[{type: CEL, condition: A, celExpressions: ["true"]}, {type: CEL, condition: B, celExpressions: ["false"]}]`, settings, "A True ConditionRuleEvaluated Manifest is A\nB False ConditionRuleEvaluated Manifest is not B"},
		"no name":                 {"[{type: CEL, condition: ''}]", settings, `error: conditionRules: condition "": `},
		"a name that is none":     {"[{type: CEL, condition: a b}]", settings, `error: conditionRules: condition "a b": `},
		"another form":            {"{}", settings, "error: conditionRules: "},
		"null":                    {"null", settings, ""},
	} {
		text := strings.ReplaceAll(tt.rules, "ENDLESS", strings.Repeat("[1,2,3,4,5,6,7,8,9,10].all(a, ", 9)+"true"+strings.Repeat(")", 9))
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		readYAML(t, tt.object, &object.Object)
		var got []string
		rules, err := compileRules(ocm.ManifestConfig{ConditionRules: json.RawMessage(raw)}, object)
		if err != nil {
			got = append(got, "error: "+err.Error())
		}
		for _, c := range evaluateRules(rules, object) {
			got = append(got, strings.Join([]string{c.Type, string(c.Status), c.Reason, c.Message}, " "))
		}
		if all := strings.Join(got, "\n"); !strings.HasPrefix(all, tt.want) || tt.want == "" && all != "" {
			t.Errorf("%s:\n%s\nwant\n%s", name, all, tt.want)
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add(`[{"type":"CEL","condition":"Done","celExpressions":["object.data.state == 'done'"],"messageExpression":"string(result)"}]`)
	f.Add(`[{"type":"WellKnownConditions","condition":"Complete"}]`)
	object := &unstructured.Unstructured{}
	readYAML(f, bareJob, &object.Object)
	f.Fuzz(func(t *testing.T, rules string) {
		compiled, err := compileRules(ocm.ManifestConfig{ConditionRules: json.RawMessage(rules)}, object)
		if err != nil {
			return
		}
		for _, c := range evaluateRules(compiled, object) {
			if c.Type == "" || c.Status == "" || c.Reason == "" {
				t.Errorf("%s gives %+v", rules, c)
			}
		}
	})
}
