package values

import (
	"fmt"
	"maps"
	"reflect"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

// guard counts what a rendering does, and how many bytes its functions made.
type guard struct {
	end   time.Time
	steps int
	made  int
}

// unsafe are sprig's functions that read the environment or the network.
var unsafe = []string{"env", "expandenv", "getHostByName"}

// functions returns what templates may call. Each call is counted, and bounded in its arguments and its result.
func (g *guard) functions() template.FuncMap {
	all := maps.Clone(sprig.TxtFuncMap())
	for _, name := range unsafe {
		delete(all, name)
	}
	maps.Copy(all, growing())
	all["toYaml"] = toYAML
	for name, function := range all {
		all[name] = g.wrap(name, function)
	}
	return all
}

func (g *guard) step() error {
	if g.steps++; g.steps > maxSteps {
		return fmt.Errorf("%w: more than %d steps", ErrLimit, maxSteps)
	}
	if time.Now().After(g.end) {
		return fmt.Errorf("%w: more than %v", ErrLimit, maxTime)
	}
	return nil
}

// wrap bounds a function. A panic with an error becomes the error of the template.
func (g *guard) wrap(name string, function any) any {
	f := reflect.ValueOf(function)
	call := f.Call
	if f.Type().IsVariadic() {
		call = f.CallSlice
	}
	return reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
		if err := g.step(); err != nil {
			panic(err)
		}
		for _, arg := range args {
			if large(arg) {
				panic(fmt.Errorf("%w: a number above %d", ErrLimit, maxCount))
			}
			heavy(arg) // it may have grown as a member of another value
		}
		results := call(args)
		for _, r := range results {
			if size(r) > maxSize {
				panic(fmt.Errorf("%w: a value of more than %d bytes", ErrLimit, maxSize))
			}
			heavy(r)
			if g.made += made(name, r); g.made > maxMade {
				panic(fmt.Errorf("%w: values of more than %d bytes", ErrLimit, maxMade))
			}
		}
		return results
	}).Interface()
}

// heavy panics if a value is too large to be encoded or printed.
func heavy(v reflect.Value) {
	if weight(v, 0) > maxWeight {
		panic(fmt.Errorf("%w: a value of more than %d bytes", ErrLimit, maxWeight))
	}
}

// large says whether an argument is a count of type int that no chart needs. Numbers to calculate with are of type any.
func large(arg reflect.Value) bool {
	switch {
	case arg.Kind() == reflect.Int:
		return arg.Int() > maxCount || arg.Int() < -maxCount
	case arg.Kind() == reflect.Slice && arg.Type().Elem().Kind() == reflect.Int:
		for i := range arg.Len() {
			if large(arg.Index(i)) {
				return true
			}
		}
	}
	return false
}

func size(result reflect.Value) int {
	if result.Kind() == reflect.Interface {
		result = result.Elem()
	}
	switch result.Kind() {
	case reflect.String, reflect.Slice:
		return result.Len()
	}
	return 0
}

func toYAML(value any) (string, error) {
	text, err := yaml.Marshal(value)
	return string(text), err
}
