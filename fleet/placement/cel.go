package placement

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/sealift/sealift/fleet/ocm"
)

// budget is what all expressions of a selector may cost together, for one cluster.
const budget = celconfig.RuntimeCELCostBudget

// expressions are the compiled expressions of a CelSelector.
type expressions struct {
	programs []cel.Program
}

// compileCEL compiles expressions over the variable managedCluster.
func compileCEL(texts []string, known Known) (*expressions, error) {
	env, err := environment(known)
	if err != nil {
		return nil, fmt.Errorf("make the CEL environment: %w", err)
	}
	e := &expressions{}
	for _, text := range texts {
		ast, issues := env.Compile(text)
		if issues.Err() != nil {
			return nil, fmt.Errorf("CEL expression %q: %w", text, issues.Err())
		}
		program, err := env.Program(ast,
			cel.CostLimit(celconfig.PerCallLimit),
			cel.CostTracking(&library.CostEstimator{}),
		)
		if err != nil {
			return nil, fmt.Errorf("CEL expression %q: %w", text, err)
		}
		e.programs = append(e.programs, program)
	}
	return e, nil
}

// match says whether all expressions are true. An error at run time, or a cost above the budget, is no match.
func (e *expressions) match(c *ocm.ManagedCluster, budget uint64) bool {
	cluster, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return false
	}
	for _, program := range e.programs {
		value, details, err := program.Eval(map[string]any{"managedCluster": cluster})
		if err != nil || details == nil || details.ActualCost() == nil || *details.ActualCost() > budget {
			return false
		}
		budget -= *details.ActualCost()
		if value != types.True {
			return false
		}
	}
	return true
}

// environment has the Kubernetes libraries, strings, optionals, managedCluster.scores(name) and text.parseJSON().
func environment(known Known) (*cel.Env, error) {
	object := cel.MapType(cel.StringType, cel.DynType)
	reports := make(map[ocm.ConfigObject]ocm.AddOnPlacementScore)
	for _, s := range known.Scores {
		if !stale(s, known) {
			reports[ocm.ConfigObject{Namespace: s.Namespace, Name: s.Name}] = s
		}
	}
	return cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(2)),
		library.Lists(), library.Regex(), library.URLs(), library.Quantity(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(),
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
