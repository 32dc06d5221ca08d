package placement

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sealift/sealift/fleet/expression"
	"github.com/sealift/sealift/fleet/ocm"
)

// expressions are the compiled expressions of a CelSelector.
type expressions struct {
	programs []expression.Program
}

// compileCEL compiles expressions over the variable managedCluster.
func compileCEL(texts []string, env *cel.Env) (*expressions, error) {
	e := &expressions{}
	for _, text := range texts {
		program, err := expression.Compile(env, text)
		if err != nil {
			return nil, err
		}
		e.programs = append(e.programs, program)
	}
	return e, nil
}

// match reports whether all expressions are true. An error at run time, or a cost above the budget, is not a match.
func (e *expressions) match(c *ocm.ManagedCluster, budget uint64) bool {
	matches, _ := e.cost(c, budget)
	return matches
}

// cost is match, and returns what it cost: that of the expressions, and something for what CEL does not count.
func (e *expressions) cost(c *ocm.ManagedCluster, budget uint64) (matches bool, cost uint64) {
	const conversion, evaluation = 1_000, 100
	cost = conversion
	cluster, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return false, cost
	}
	left := budget
	for _, program := range e.programs {
		cost += evaluation
		value, err := program.Evaluate(&left, map[string]any{"managedCluster": cluster})
		if errors.Is(err, expression.ErrCost) {
			return false, cost + budget
		}
		if err != nil || value != types.True {
			return false, cost + budget - left
		}
	}
	return true, cost + budget - left
}

// environment adds managedCluster.scores(name) and text.parseJSON() to the usual functions.
func environment(known Known) (*cel.Env, error) {
	object := cel.MapType(cel.StringType, cel.DynType)
	reports := make(map[ocm.ConfigObject]ocm.AddOnPlacementScore)
	for _, s := range known.Scores {
		if !stale(s, known) {
			reports[ocm.ConfigObject{Namespace: s.Namespace, Name: s.Name}] = s
		}
	}
	return expression.Environment(
		cel.Variable("managedCluster", object),
		cel.Function("scores", cel.MemberOverload("managed_cluster_scores", []*cel.Type{object, cel.StringType}, cel.ListType(object),
			cel.BinaryBinding(func(cluster, name ref.Val) ref.Val { return scores(reports, cluster, name) }))),
		cel.Function("parseJSON", cel.MemberOverload("string_parse_json", []*cel.Type{cel.StringType}, cel.DynType,
			cel.UnaryBinding(parseJSON))),
	)
}

// scores returns the scores of an AddOnPlacementScore. One that is missing or too old is an error, so no match.
func scores(reports map[ocm.ConfigObject]ocm.AddOnPlacementScore, cluster, name ref.Val) ref.Val {
	var object map[string]any
	if m, ok := cluster.Value().(map[string]any); ok {
		object, _ = m["metadata"].(map[string]any)
	}
	namespace, _ := object["name"].(string)
	want, _ := name.Value().(string)
	report, found := reports[ocm.ConfigObject{Namespace: namespace, Name: want}]
	if !found {
		return types.WrapErr(fmt.Errorf("there is no AddOnPlacementScore %s/%s that is valid", namespace, want))
	}
	list := make([]map[string]any, len(report.Status.Scores))
	for i, score := range report.Status.Scores {
		list[i] = map[string]any{"name": score.Name, "value": int64(score.Value)}
	}
	return types.DefaultTypeAdapter.NativeToValue(list)
}

func parseJSON(text ref.Val) ref.Val {
	s, ok := text.(types.String)
	if !ok {
		return types.WrapErr(errors.New("parseJSON needs a string"))
	}
	var value any
	if err := json.Unmarshal([]byte(s), &value); err != nil {
		return types.WrapErr(fmt.Errorf("parseJSON: %w", err))
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}
