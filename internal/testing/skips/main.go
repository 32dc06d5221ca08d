// Command skips reads the output of go test -json. It prints what go test without -v prints, and at the end how many tests were skipped,
// with one line for each reason.
//
//	go test -json ./... | go run ./internal/testing/skips
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := report(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
}

// event is a line of go test -json: cmd/test2json, and go help buildjson.
type event struct{ Action, Package, ImportPath, Test, Output string }

// logged is a line that a test logs; its last one is the reason for a skip.
var logged = regexp.MustCompile(`^\s+[^\s:]+\.go:[0-9]+: (.*)$`)

// report copies the output of packages and of failed tests, and then prints the reasons for skips.
func report(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20) // a line has one line of a test's output
	output := map[string][]string{}
	reasons := map[string]int{}
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if _, err := fmt.Fprintln(out, lines.Text()); err != nil { // go itself may print plain lines
				return err
			}
			continue
		}
		test := e.Package + " " + e.Test
		text := ""
		switch {
		case e.Action == "build-output", e.Action == "output" && e.Test == "" && shown(e.Output):
			text = e.Output
		case e.Action == "output":
			output[test] = append(output[test], e.Output)
		case e.Action == "fail" && e.Test != "":
			text = messages(output[test])
			delete(output, test)
		case e.Action == "fail": // tests ended by a crash have no event
			for _, test := range slices.Sorted(maps.Keys(output)) {
				if strings.HasPrefix(test, e.Package+" ") {
					text += messages(output[test])
					delete(output, test)
				}
			}
		case e.Action == "skip" && e.Test != "":
			reasons[reason(output[test])]++
			delete(output, test)
		case e.Action == "pass":
			delete(output, test)
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return summary(out, reasons)
}

// shown reports whether go test prints a line of a package's output without -v.
func shown(line string) bool {
	return line != "PASS\n" && !strings.HasPrefix(line, "testing: warning: no tests to run")
}

// messages joins the output of a test without its course, such as "=== RUN".
func messages(output []string) string {
	return strings.Join(slices.DeleteFunc(output, func(line string) bool { return strings.HasPrefix(line, "=== ") }), "")
}

// reason returns the last output of a skipped test.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if found := logged.FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil && found[1] != "" {
			return found[1]
		}
	}
	return "without a reason"
}

// summary prints the reasons, the most frequent one first.
func summary(out io.Writer, reasons map[string]int) error {
	total := 0
	for _, count := range reasons {
		total += count
	}
	if total == 0 {
		_, err := fmt.Fprintln(out, "no test was skipped")
		return err
	}
	text := fmt.Sprintf("skipped tests: %d\n", total)
	for _, reason := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	}) {
		text += fmt.Sprintf("%6d  %s\n", reasons[reason], reason)
	}
	_, err := io.WriteString(out, text)
	return err
}
