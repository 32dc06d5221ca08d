// Package metric keeps the metrics that hooks report through $METRICS_PATH, and shows them to Prometheus (S-14).
//
// A hook writes a stream of operations. Operations with a group replace the group's series: one that is not written again
// disappears, and a counter that is written again continues. Operations without a group never expire.
package metric

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"

	"github.com/sealift/sealift/operator/shape"
)

// Action is the effect of an operation on its metric.
type Action string

// The actions: add to a counter, set a gauge, observe a value in a histogram, and expire a whole group.
const (
	Add     Action = "add"
	Set     Action = "set"
	Observe Action = "observe"
	Expire  Action = "expire"
)

// Operation is one line of a hook.
type Operation struct {
	Name    string            `json:"name"`
	Group   string            `json:"group,omitempty"`
	Action  Action            `json:"action"`
	Value   *float64          `json:"value,omitempty"`
	Buckets []float64         `json:"buckets,omitempty"`
	Labels  map[string]string `json:"labels"`
	// AddValue and SetValue are the short forms {"add":1} and {"set":1}.
	AddValue *float64 `json:"add,omitempty"`
	SetValue *float64 `json:"set,omitempty"`
}

// form treats null as an absent key, and ignores other keys, as shell-operator does.
var form = shape.Object(shape.Fields{
	"name": shape.Text().OrNull(), "group": shape.Text().OrNull(), "action": shape.Text().OrNull(),
	"value": shape.Number().OrNull(), "add": shape.Number().OrNull(), "set": shape.Number().OrNull(),
	"buckets": shape.List(shape.Number()).OrNull(), "labels": shape.Map(shape.Text().OrNull()).OrNull(),
}).Open()

// Parse reads a stream of operations. It takes all of them or none: one mistake refuses the stream.
func Parse(stream []byte) (all []Operation, err error) {
	var errs []error
	dec := json.NewDecoder(bytes.NewReader(stream))
	for n := 1; ; n++ {
		var text json.RawMessage
		if err := dec.Decode(&text); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("metric operation %d: not JSON: %w", n, err)
		}
		o, mistakes := parse(text)
		for _, err := range mistakes {
			errs = append(errs, fmt.Errorf("metric operation %d: %w", n, err))
		}
		all = append(all, o)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

func parse(text json.RawMessage) (o Operation, errs []error) {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return o, []error{err}
	}
	if errs := form.Check(value, ""); errs != nil {
		return o, errs
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, []error{err}
	}
	return o, o.complete()
}

// complete turns the short forms into actions, and finds mistakes.
func (o *Operation) complete() (errs []error) {
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case o.AddValue != nil && o.SetValue != nil:
		refuse("'set' and 'add' exclude each other")
	case o.AddValue != nil:
		o.Action, o.Value = Add, o.AddValue
	case o.SetValue != nil:
		o.Action, o.Value = Set, o.SetValue
	case o.Action == "":
		refuse("one of 'action', 'set' or 'add' is required")
	}
	switch o.Action {
	case Add, Set:
	case Observe:
		if o.Group != "" {
			refuse("unsupported action 'observe' in a group")
		}
		if len(o.Buckets) == 0 {
			refuse("'buckets' is required to observe")
		}
		for i := 1; i < len(o.Buckets); i++ {
			if o.Buckets[i] <= o.Buckets[i-1] {
				refuse("'buckets' must rise: %v comes after %v", o.Buckets[i], o.Buckets[i-1])
			}
		}
	case Expire:
		if o.Group == "" {
			refuse("unsupported action 'expire' without a group")
		}
	case "":
	default:
		refuse("unsupported action '%s'; say add, set, observe or expire", o.Action)
	}
	return append(errs, o.checkSeries()...)
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// checkSeries checks what names a series and its value: Prometheus would refuse the whole page for one invalid name.
func (o *Operation) checkSeries() (errs []error) {
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Action == Expire && o.Group != "" {
		return nil
	}
	if o.Name == "" {
		refuse("'name' is required")
	} else if !metricName.MatchString(o.Name) {
		refuse("'name' %q may have letters, digits, _ and : only", o.Name)
	}
	for label := range o.Labels {
		if !labelName.MatchString(label) || len(label) > 1 && label[:2] == "__" {
			refuse("label %q may have letters, digits and _ only, and may not begin with __", label)
		}
	}
	switch {
	case o.Value == nil && (o.Action == Add || o.Action == Set || o.Action == Observe):
		refuse("'value' is required")
	case o.Value != nil && o.Action == Add && (*o.Value < 0 || math.IsNaN(*o.Value)):
		refuse("a counter cannot fall: 'value' is %v", *o.Value)
	}
	return errs
}
