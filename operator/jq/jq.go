// Package jq runs the jq filters of hooks: the jqFilter of a binding and of an object patch. A filter has no access to files
// or to the environment, and it is bounded in time and output.
package jq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

const (
	// longest is how long one filter may work on one object. A filter such as def f: f; f never ends.
	longest = 10 * time.Second
	// most is the number of results that one object may have.
	most = 100_000
)

// Filter is a compiled filter. It may be used by several goroutines at once.
type Filter struct {
	text string
	code *gojq.Code
}

// Compile reads a filter in the language of jq 1.7.
func Compile(text string) (*Filter, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read the jq filter %q: %w", text, err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("read the jq filter %q: %w", text, err)
	}
	return &Filter{text, code}, nil
}

// String returns the written form of the filter.
func (f *Filter) String() string { return f.text }

// quiet removes the quoted value from an error, since it may be that of a Secret and would be in the log.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	text := err.Error()
	if raised := gojq.ValueError(nil); errors.As(err, &raised) || strings.HasPrefix(text, "error: ") {
		return errors.New("it raised an error")
	}
	for _, quote := range []string{"(", `"`, " applied to"} {
		text, _, _ = strings.Cut(text, quote)
	}
	return errors.New(strings.TrimSpace(text))
}

// Apply runs the filter on a value, as encoding/json decodes it, and may change the value. No result is nil, one result is
// itself, and several results are a list (S-5).
func (f *Filter) Apply(ctx context.Context, value any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	var results []any
	for all := f.code.RunWithContext(ctx, value); ; {
		result, ok := all.Next()
		if !ok {
			break
		}
		if err, failed := result.(error); failed {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil { // the filter ended itself
				break
			}
			return nil, fmt.Errorf("run the jq filter %q: %w", f.text, quiet(err))
		}
		if results = append(results, result); len(results) > most {
			return nil, fmt.Errorf("run the jq filter %q: it has more than %d results", f.text, most)
		}
	}
	switch len(results) {
	case 0:
		return nil, nil
	case 1:
		return results[0], nil
	}
	return results, nil
}
