package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json: cmd/test2json, and go help buildjson.
type event struct{ Action, Package, ImportPath, Test, Output string }

// failure is a failed test of a package, not one of its subtests.
type failure struct{ pkg, name string }

// outcome is the result of one run.
type outcome struct {
	reasons  map[string]int      // number of skipped tests by reason
	failures []failure           // in the order in which they ended
	complete map[string]bool     // packages whose tests failed, but have all run
	crashed  bool                // a package did not compile, or its tests did not all run
	output   map[string][]string // of tests that have not ended, by package and test
}

func newOutcome() *outcome {
	return &outcome{reasons: map[string]int{}, complete: map[string]bool{}, output: map[string][]string{}}
}

// read reads the output of go test -json, and copies the output of packages and of failed tests.
func (o *outcome) read(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20) // a line has one line of a test's output
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if _, err := fmt.Fprintln(out, lines.Text()); err != nil { // go itself may print plain lines
				return err
			}
			continue
		}
		if _, err := io.WriteString(out, o.add(e)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// add notes an event, and returns what is printed of it.
func (o *outcome) add(e event) (text string) {
	test := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "" && shown(e.Output):
		if e.Output == "FAIL\n" { // of a test program that comes to its end
			o.complete[e.Package] = true
		}
		return e.Output
	case e.Action == "output":
		o.output[test] = append(o.output[test], e.Output)
	case e.Action == "fail" && e.Test != "":
		text = messages(o.output[test])
		delete(o.output, test)
		if !strings.Contains(e.Test, "/") {
			o.failures = append(o.failures, failure{e.Package, e.Test})
		}
	case e.Action == "fail": // tests ended by a crash have no event
		failed := slices.ContainsFunc(o.failures, func(f failure) bool { return f.pkg == e.Package })
		o.crashed = o.crashed || !failed || !o.complete[e.Package]
		for _, test := range slices.Sorted(maps.Keys(o.output)) {
			if strings.HasPrefix(test, e.Package+" ") {
				text += messages(o.output[test])
				delete(o.output, test)
			}
		}
	case e.Action == "build-fail":
		o.crashed = true
	case e.Action == "skip" && e.Test != "":
		o.reasons[reason(o.output[test])]++
		delete(o.output, test)
	case e.Action == "pass":
		delete(o.output, test)
	}
	return text
}

// shown reports whether go test prints a line of a package's output without -v.
func shown(line string) bool {
	return line != "PASS\n" && !strings.HasPrefix(line, "testing: warning: no tests to run")
}

// messages joins the output of a test without its course, such as "=== RUN".
func messages(output []string) string {
	return strings.Join(slices.DeleteFunc(output, func(line string) bool { return strings.HasPrefix(line, "=== ") }), "")
}

// logged is a line that a test logs; its last one is the reason for a skip.
var logged = regexp.MustCompile(`^\s+[^\s:]+\.go:[0-9]+: (.*)$`)

// reason returns the last output of a skipped test.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if found := logged.FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil && found[1] != "" {
			return found[1]
		}
	}
	return "without a reason"
}
