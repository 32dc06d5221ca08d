// Package expression compiles and evaluates the CEL expressions of a fleet's resources, with the libraries and within the costs that
// Kubernetes allows for its own.
package expression

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// Budget bounds the cost of all expressions of a resource together, for one object.
const Budget = celconfig.RuntimeCELCostBudget

// ErrCost means that expressions cost more than their budget.
var ErrCost = errors.New("CEL evaluation budget exceeded")

// Environment has the Kubernetes libraries, strings, optionals, and what options declare.
func Environment(options ...cel.EnvOption) (*cel.Env, error) {
	env, err := cel.NewEnv(append([]cel.EnvOption{
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(2)),
		library.Lists(), library.Regex(), library.URLs(), library.Quantity(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("make the CEL environment: %w", err)
	}
	return env, nil
}

// costs are those of Kubernetes, and of functions that package placement adds.
type costs struct{ library.CostEstimator }

// CallCost returns the cost of a call. A cost of 1 is about 100 ns.
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	switch function {
	case "parseJSON":
		if text, ok := args[0].(types.String); ok {
			return new(1 + uint64(len(text)))
		}
	case "scores":
		if list, ok := result.(traits.Lister); ok {
			if size, ok := list.Size().(types.Int); ok {
				return new(1 + 10*uint64(size))
			}
		}
	}
	return c.CostEstimator.CallCost(function, overload, args, result)
}

// Program is a compiled expression.
type Program struct{ program cel.Program }

// Compile compiles an expression.
func Compile(env *cel.Env, text string) (Program, error) {
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return Program{}, fmt.Errorf("CEL expression %q: %w", text, issues.Err())
	}
	program, err := env.Program(ast, cel.CostLimit(celconfig.PerCallLimit), cel.CostTracking(&costs{}))
	if err != nil {
		return Program{}, fmt.Errorf("CEL expression %q: %w", text, err)
	}
	return Program{program}, nil
}

// Evaluate evaluates the expression, and charges the cost to the budget.
func (p Program) Evaluate(budget *uint64, variables map[string]any) (ref.Val, error) {
	value, details, err := p.program.Eval(variables)
	if details == nil || details.ActualCost() == nil || *details.ActualCost() > *budget {
		return nil, errors.Join(err, ErrCost)
	}
	*budget -= *details.ActualCost()
	return value, err
}
