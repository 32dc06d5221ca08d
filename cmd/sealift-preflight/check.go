package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"

	analyze "github.com/replicatedhq/troubleshoot/pkg/analyze"
	"github.com/replicatedhq/troubleshoot/pkg/apis/troubleshoot/v1beta2"
	"github.com/replicatedhq/troubleshoot/pkg/collect"

	"github.com/sealift/sealift/preflight"
)

// collected maps file names to the contents that collectors found.
type collected map[string][]byte

// check collects for all specifications and analyzes each. An analyzer sees first what its own specification collected, so that
// two may use the same name for different things, and then what the others did: kURL has analyzers without a collector (kURL
// §8.3).
func check(ctx context.Context, specs []v1beta2.HostPreflight) (all []preflight.Result, err error) {
	own := make([]collected, len(specs))
	everything := collected{}
	seen := map[string]collected{}
	for i, spec := range specs {
		own[i] = collected{}
		for _, c := range spec.Spec.Collectors {
			found, known, err := collectOnce(ctx, c, seen)
			if err != nil {
				return nil, err
			}
			if !known {
				all = append(all, unknown(spec.Name, "collector", c))
			}
			maps.Copy(own[i], found)
		}
		maps.Copy(everything, own[i])
	}
	for i, spec := range specs {
		visible := maps.Clone(everything)
		maps.Copy(visible, own[i])
		for _, a := range spec.Spec.Analyzers {
			all = append(all, analyzeHost(spec.Name, a, visible)...)
		}
	}
	return all, ctx.Err()
}

// collectOnce runs a host collector, or returns the result of an earlier run. Failures are reported on standard error;
// analyzers without their data say so in the report.
func collectOnce(ctx context.Context, c *v1beta2.HostCollect, seen map[string]collected) (found collected, known bool, err error) {
	key, err := json.Marshal(c)
	if err != nil {
		return nil, false, err
	}
	if found, ok := seen[string(key)]; ok {
		return found, true, nil
	}
	collector, known := collect.GetHostCollector(c, "")
	if !known {
		return nil, false, nil
	}
	found, err = bounded(ctx, collector.Title(), func(progress chan<- any) (map[string][]byte, error) {
		if excluded, err := collector.IsExcluded(); excluded || err != nil {
			return nil, err
		}
		return collector.Collect(progress)
	})
	if ctx.Err() != nil {
		return nil, true, ctx.Err()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "collector %s: %v\n", collector.Title(), err)
	}
	seen[string(key)] = found
	return found, true, nil
}

// bounded limits the wait for work that takes no context. Work that does not end in time continues in the background, and ends with
// the process.
func bounded(ctx context.Context, what string, work func(progress chan<- any) (map[string][]byte, error)) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, collectorTime)
	defer cancel()
	type outcome struct {
		found map[string][]byte
		err   error
	}
	done, progress := make(chan outcome, 1), make(chan any)
	go func() {
		found, err := work(progress)
		done <- outcome{found, err}
	}()
	for {
		select {
		case line := <-progress:
			fmt.Fprintf(os.Stderr, "%s: %v\n", what, line)
		case o := <-done:
			return o.found, o.err
		case <-ctx.Done():
			go func() { // it must not block on its output
				for range progress {
				}
			}()
			return nil, fmt.Errorf("did not end: %w", ctx.Err())
		}
	}
}

// unknown reports an item whose kind this Troubleshoot does not have. Decoding has left nothing of it.
func unknown(spec, what string, item any) preflight.Result {
	text, _ := json.Marshal(item)
	return preflight.Result{Check: name(spec, what), Status: preflight.Warn, Message: "cannot tell: no such " + what + " in Troubleshoot " + string(text),
		Hint: "see whether its kind is spelled as in Troubleshoot's reference"}
}

func analyzeHost(spec string, a *v1beta2.HostAnalyze, from collected) []preflight.Result {
	analyzer, ok := analyze.GetHostAnalyzer(a)
	if !ok {
		return []preflight.Result{unknown(spec, "analyzer", a)}
	}
	title := name(spec, analyzer.Title())
	if excluded, err := analyzer.IsExcluded(); err != nil {
		return []preflight.Result{undecided(title, err)}
	} else if excluded {
		return nil
	}
	found, err := analyzer.Analyze(from.read, from.find)
	if err != nil {
		return []preflight.Result{undecided(title, err)}
	}
	if len(found) == 0 {
		return []preflight.Result{undecided(title, errors.New("nothing was collected for it, or no outcome matches"))}
	}
	return results(spec, found)
}

// undecided is the answer of a check that could not be made. As with sealift's own checks it is a warning.
func undecided(title string, err error) preflight.Result {
	return preflight.Result{Check: title, Status: preflight.Warn, Message: fmt.Sprintf("cannot tell: %v", err), Hint: "see why it cannot be collected"}
}

func results(spec string, found []*analyze.AnalyzeResult) []preflight.Result {
	var all []preflight.Result
	for _, f := range found {
		if f == nil {
			continue
		}
		r := preflight.Result{Check: name(spec, f.Title), Status: preflight.Pass, Message: f.Message, Hint: f.URI}
		switch {
		case f.IsFail:
			r.Status = preflight.Fail
		case f.IsWarn:
			r.Status = preflight.Warn
		case !f.IsPass:
			r.Status, r.Message = preflight.Warn, "cannot tell: no outcome fits"
		}
		all = append(all, r)
	}
	return all
}

// name is the name of a check of a specification, unique among all of them.
func name(spec, title string) string {
	if spec == "" {
		return title
	}
	return spec + ": " + title
}
