// Command verdict runs go test with the given arguments, and prints what go test without -v prints, at the end with how many tests were
// skipped, and one line for each reason.
//
// Up to three failed tests run once more, each alone: on a busy machine, another test may have taken what they needed. They are unstable
// if they pass then, which is printed, and does not fail the whole. A package that did not compile or crashed has failed.
//
//	go run ./internal/testing/verdict -p 3 -timeout 60m ./...
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	if err := judge(context.Background(), os.Args[1:], goTest, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "verdict:", err)
		os.Exit(1)
	}
}

// most is how many failed tests run once more.
const most = 3

// goTest runs go test -json, and hands its output to read.
func goTest(ctx context.Context, args []string, read func(io.Reader) error) (failed, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err = read(out)
	return cmd.Wait(), err
}

// judge runs the tests, and those that failed once more. run runs them, as goTest does.
func judge(ctx context.Context, args []string, run func(ctx context.Context, args []string, read func(io.Reader) error) (failed, err error), out io.Writer) error {
	found := newOutcome()
	failed, err := run(ctx, args, func(in io.Reader) error { return found.read(in, out) })
	if err != nil {
		return err
	}
	if err := summary(out, found.reasons); err != nil || failed == nil {
		return err
	}
	if found.crashed || len(found.failures) == 0 || len(found.failures) > most {
		return failed
	}
	flags := slices.DeleteFunc(slices.Clone(args), isPackage)
	for _, test := range found.failures {
		again := newOutcome()
		fmt.Fprintf(out, "once more, alone: %s of %s\n", test.name, test.pkg)
		failed, err := run(ctx, append(slices.Clone(flags), "-count=1", "-run", "^"+test.name+"$", test.pkg), func(in io.Reader) error { return again.read(in, out) })
		if err := cmp.Or(err, failed); err != nil {
			return fmt.Errorf("%s of %s failed twice: %w", test.name, test.pkg, err)
		}
	}
	for _, test := range found.failures {
		fmt.Fprintf(out, "UNSTABLE: %s of %s failed beside others, and passed alone\n", test.name, test.pkg)
	}
	return nil
}

// isPackage recognizes the arguments that are packages: paths, with a slash, and no flags.
func isPackage(arg string) bool {
	return !strings.HasPrefix(arg, "-") && strings.Contains(arg, "/")
}

// summary prints the reasons for skips, the most frequent one first.
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
