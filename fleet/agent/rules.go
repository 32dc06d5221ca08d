package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sealift/sealift/fleet/expression"
	"github.com/sealift/sealift/fleet/ocm"
)

// Types of a conditionRule.
const (
	ruleCEL       = "CEL"
	ruleWellKnown = "WellKnownConditions"
)

// Reasons of the conditions that rules set. That of a work is the last one.
const (
	ruleEvaluated   = "ConditionRuleEvaluated"
	ruleInvalid     = "ConditionRuleInvalid"
	ruleError       = "ConditionRuleExpressionError"
	ruleInternal    = "ConditionRuleInternalError"
	rulesAggregated = "ConditionRulesAggregated"
)

// conditionRule is a rule in a work. It sets one condition of a manifest.
type conditionRule struct {
	Condition         string   `json:"condition"`
	Type              string   `json:"type"`
	CelExpressions    []string `json:"celExpressions"`
	Message           string   `json:"message"`
	MessageExpression string   `json:"messageExpression"`
}

// wellKnownRules are the rules of type WellKnownConditions, by kind. A kind that has none gets no condition.
var wellKnownRules = map[string]conditionRule{
	"Job.batch": {
		Condition:         ocm.Complete,
		CelExpressions:    []string{`hasConditions(object.status) && object.status.conditions.exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')`},
		MessageExpression: `result ? 'Job is finished' : 'Job is not finished'`,
	},
	"Pod": {
		Condition:         ocm.Complete,
		CelExpressions:    []string{`object.status.phase in ['Succeeded', 'Failed']`},
		MessageExpression: `'Pod is in phase ' + object.status.phase`,
	},
}

// rule is a compiled conditionRule.
type rule struct {
	condition   string
	expressions []expression.Program
	message     string
	text        *expression.Program // of the message
	noText      string              // why there is no text, although the rule has an expression for it
	broken      *metav1.Condition   // what the rule reports if it cannot be evaluated
}

// ruleEnvironment has the variables object and, for messages, result.
var ruleEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return expression.Environment(
		cel.Variable("object", cel.DynType), cel.Variable("result", cel.BoolType),
		cel.Function("hasConditions", cel.Overload("status_has_conditions", []*cel.Type{cel.DynType}, cel.BoolType, cel.UnaryBinding(hasConditions))),
	)
})

// hasConditions reports whether a status has a list of conditions that is not empty.
func hasConditions(value ref.Val) ref.Val {
	status, ok := value.(traits.Mapper)
	if !ok {
		return types.False
	}
	found, ok := status.Find(types.String("conditions"))
	if !ok {
		return types.False
	}
	list, ok := found.(traits.Lister)
	return types.Bool(ok && list.Size() != types.IntZero)
}

// compileRules compiles the rules of a manifest. A rule that cannot be evaluated says so in its condition, and stops nothing.
func compileRules(config ocm.ManifestConfig, object *unstructured.Unstructured) ([]rule, error) {
	if absent(config.ConditionRules) {
		return nil, nil
	}
	var list []conditionRule
	if err := json.Unmarshal(config.ConditionRules, &list); err != nil {
		return nil, fmt.Errorf("conditionRules: %w", err)
	}
	var rules []rule
	for _, r := range list {
		if wrong := validation.IsQualifiedName(r.Condition); len(wrong) > 0 {
			return nil, fmt.Errorf("conditionRules: condition %q: %s", r.Condition, wrong[0])
		}
		if r.Type == ruleWellKnown {
			known, ok := wellKnownRules[object.GroupVersionKind().GroupKind().String()]
			if !ok || known.Condition != r.Condition {
				continue
			}
			r.CelExpressions = known.CelExpressions
			if r.Message == "" && r.MessageExpression == "" {
				r.MessageExpression = known.MessageExpression
			}
		}
		rules = append(rules, r.compile())
	}
	return rules, nil
}

func (c conditionRule) compile() rule {
	r := rule{condition: c.Condition, message: c.Message}
	breaks := func(status metav1.ConditionStatus, reason, message string) rule {
		r.broken = &metav1.Condition{Type: c.Condition, Status: status, Reason: reason, Message: message}
		return r
	}
	if c.Type != ruleCEL && c.Type != ruleWellKnown {
		return breaks(metav1.ConditionUnknown, ruleInvalid, fmt.Sprintf("unrecognized condition rule type %s; use %s or %s", c.Type, ruleCEL, ruleWellKnown))
	}
	env, err := ruleEnvironment()
	if err != nil {
		return breaks(metav1.ConditionUnknown, ruleInternal, err.Error())
	}
	for _, text := range c.CelExpressions {
		program, err := expression.Compile(env, text)
		if err != nil {
			return breaks(metav1.ConditionFalse, ruleError, err.Error())
		}
		r.expressions = append(r.expressions, program)
	}
	if c.MessageExpression != "" {
		program, err := expression.Compile(env, c.MessageExpression)
		if err != nil { // a message decides nothing
			r.noText, _, _ = strings.Cut(errors.Unwrap(err).Error(), "\n")
			return r
		}
		r.text = &program
	}
	return r
}

// evaluate returns the condition that the rule sets for an object: True if all expressions are.
func (r rule) evaluate(live *unstructured.Unstructured, budget *uint64) metav1.Condition {
	if r.broken != nil {
		return *r.broken
	}
	c := metav1.Condition{Type: r.condition, Status: metav1.ConditionTrue, Reason: ruleEvaluated}
	variables := map[string]any{"object": live.Object, "result": false}
	for _, p := range r.expressions {
		value, err := p.Evaluate(budget, variables)
		if err == nil && value.Type() != types.BoolType {
			err = fmt.Errorf("expected bool result, got %s", value.Type().TypeName())
		}
		if err != nil {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, ruleError, err.Error()
			return c
		}
		if value != types.True {
			c.Status = metav1.ConditionFalse
			break
		}
	}
	variables["result"] = c.Status == metav1.ConditionTrue
	c.Message = r.say(variables, budget)
	return c
}

// say returns the message for a result. An expression takes precedence over a text, unless it is empty.
func (r rule) say(variables map[string]any, budget *uint64) string {
	if r.noText != "" {
		return r.noText
	}
	if r.text != nil {
		value, err := r.text.Evaluate(budget, variables)
		if err != nil {
			return err.Error()
		}
		text, ok := value.Value().(string)
		if !ok {
			return fmt.Sprintf("expected message expression to have a string result, got %v", reflect.TypeOf(value.Value()))
		}
		if text != "" {
			return text
		}
	}
	switch {
	case r.message != "":
		return r.message
	case variables["result"] == true:
		return "Manifest is " + r.condition
	}
	return "Manifest is not " + r.condition
}

// evaluateRules returns the conditions that a manifest's rules set for its object.
func evaluateRules(rules []rule, live *unstructured.Unstructured) []metav1.Condition {
	budget := uint64(expression.Budget)
	var conditions []metav1.Condition
	for _, r := range rules {
		conditions = append(conditions, r.evaluate(live, &budget))
	}
	return conditions
}

func absent(field json.RawMessage) bool { return len(field) == 0 || string(field) == "null" }
