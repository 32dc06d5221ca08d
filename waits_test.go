package sealift_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sleepCalls are the functions that pause, by the path of their package. A loop that calls one of them is a wait.
var sleepCalls = map[string][]string{
	"time": {"Sleep", "After", "NewTimer", "NewTicker", "Tick"},
	"k8s.io/apimachinery/pkg/util/wait": {"Until", "UntilWithContext", "JitterUntil", "JitterUntilWithContext", "Forever", "PollUntilContextCancel",
		"PollUntilContextTimeout", "ExponentialBackoff", "ExponentialBackoffWithContext"},
	"k8s.io/client-go/util/retry": {"OnError"},
	module + "internal/poll":      {"Pause"},
}

// tickers are only for loops.
var tickers = []string{"NewTicker", "Tick"}

// ownLoops are the files and folders whose loops pause on their own, and why. Everything else uses poll.Until, poll.Backoff or
// poll.Repeat: they end with their context, and report why they waited.
var ownLoops = map[string]string{
	"batch/follow.go":                        "a ticker between lines of a log",
	"builder/uptodate.go":                    "waits for the clock of the file system, for milliseconds",
	"console/page/stream.go":                 "a ticker that output wakes",
	"fleet/hub/member.go":                    "a ticker that a change wakes",
	"installer/agent/together.go":            "a daemon that an order wakes",
	"installer/cluster/balancer/balancer.go": "a listener that has no descriptors left",
	"installer/hooks/hook/silence.go":        "a timer that output sets back",
	"installer/recovery/restore/drill.go":    "three looks; the last one counts",
	"installer/cluster/runtime/stop.go":      "a signal, and a stronger one later",
	"installer/operation/spread.go":          "a scheduler that the end of a node's work wakes",
	"internal/connlimit/listener.go":         "a listener that has no descriptors left",
	"operator/lifecycle/config.go":           "a daemon that events wake",
	"operator/webhook/endpoint.go":           "a ticker that a request wakes",
	"store/release/publish.go":               "rounds that follow each other at once, except after a conflict",
	"internal/testing":                       "load generators and servers for tests keep their own clocks",
	"testgrid":                               "the lab keeps its own clocks",
}

func TestWaitsUseOnePackage(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != ".":
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, call := range sleepingLoops(file) {
			allowed := false
			for at := path; at != "."; at = filepath.Dir(at) {
				if _, ok := ownLoops[at]; ok {
					used[at], allowed = true, true
				}
			}
			if !allowed {
				t.Errorf("%s: a loop pauses by itself; use poll.Until, poll.Backoff or poll.Repeat", fset.Position(call.Pos()))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range ownLoops {
		if !used[path] {
			t.Errorf("%s needs no exception any more", path)
		}
	}
}

// sleepingLoops returns the calls by which the loops of a file pause, and pauses by hand. The polls of other libraries are loops themselves.
func sleepingLoops(file *ast.File) (calls []*ast.CallExpr) {
	names := map[string][]string{} // the functions that pause, by the name of their package in this file
	loops := map[string]bool{}
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		functions, ok := sleepCalls[path]
		if !ok {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name], loops[name] = functions, strings.HasPrefix(path, "k8s.io/")
	}
	var within func(node ast.Node, inLoop bool)
	within = func(node ast.Node, inLoop bool) {
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt, *ast.RangeStmt:
				if n != node {
					within(n, true)
					return false
				}
			case *ast.SelectStmt:
				if n != node && !inLoop && pausesByHand(n) {
					within(n, true)
					return false
				}
			case *ast.CallExpr:
				if of, function := called(n); slices.Contains(names[of], function) && (inLoop || loops[of] || slices.Contains(tickers, function)) {
					calls = append(calls, n)
				}
			}
			return true
		})
	}
	within(file, false)
	return calls
}

// called returns the package and the function of a call such as time.Sleep(d).
func called(call *ast.CallExpr) (of, function string) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if name, ok := selector.X.(*ast.Ident); ok {
		of = name.Name
	}
	return of, selector.Sel.Name
}

// pausesByHand reports whether a select waits for a time or the end of a context, as poll.Pause does. Such a function is meant for
// loops.
func pausesByHand(stmt *ast.SelectStmt) bool {
	var after, done bool
	for _, clause := range stmt.Body.List {
		receive := clause.(*ast.CommClause).Comm
		if receive == nil { // default
			continue
		}
		ast.Inspect(receive, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				of, function := called(call)
				after, done = after || of == "time" && function == "After", done || function == "Done"
			}
			return true
		})
	}
	return after && done
}

func TestSleepingLoopIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		code string
		want int
	}{
		"a loop":                      {`for { time.Sleep(1) }`, 1},
		"a loop with a select":        {`for x := 0; x < 3; x++ { select { case <-ctx.Done(): case <-time.After(1): } }`, 1},
		"a clause of a loop":          {`for ; ; time.Sleep(1) { }`, 1},
		"a loop over a range":         {`for range 3 { if x { poll.Pause(ctx, 1) } }`, 1},
		"a loop in a loop":            {`for { for { time.Sleep(1) } }`, 1},
		"a function in a loop":        {`for { go func() { time.Sleep(1) }() }`, 1},
		"a loop of another library":   {`wait.PollUntilContextCancel(ctx, 1, true, try)`, 1},
		"a ticker":                    {`t := time.NewTicker(1)`, 1},
		"a pause by hand":             {`select { case <-time.After(1): case <-ctx.Done(): }`, 1},
		"a pause without a loop":      {`time.Sleep(1)`, 0},
		"a time for something else":   {`select { case <-time.After(1): case <-ended: }`, 0},
		"a wait":                      {`for _, x := range all { poll.Until(ctx, 1, nil, try) }`, 0},
		"a timer that ends something": {`for { time.AfterFunc(1, stop) }`, 0},
	} {
		text := "package x\nimport (\n\"time\"\n\"k8s.io/apimachinery/pkg/util/wait\"\n\"" + module + "internal/poll\"\n)\nfunc f() {" + row.code + "}\n"
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if found := sleepingLoops(file); len(found) != row.want {
			t.Errorf("%s: %d calls, want %d", name, len(found), row.want)
		}
	}
}
