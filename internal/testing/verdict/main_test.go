package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestReportGroupsSkipsByReason(t *testing.T) {
	t.Parallel()
	in := strings.Join([]string{
		`{"ImportPath":"a","Action":"build-output","Output":"a.go:1:1: wrong\n"}`,
		`{"Action":"start","Package":"a"}`,
		`{"Action":"output","Package":"a","Test":"TestOne","Output":"=== RUN   TestOne\n"}`,
		`{"Action":"output","Package":"a","Test":"TestOne","Output":"    one_test.go:7: missing: /x\n"}`,
		`{"Action":"output","Package":"a","Test":"TestOne","Output":"    one_test.go:8: needs root\n"}`,
		`{"Action":"output","Package":"a","Test":"TestOne","Output":"--- SKIP: TestOne (0.00s)\n"}`,
		`{"Action":"skip","Package":"a","Test":"TestOne"}`,
		`{"Action":"output","Package":"a","Test":"TestTwo","Output":"    two_test.go:3: broken\n"}`,
		`{"Action":"output","Package":"a","Test":"TestTwo","Output":"--- FAIL: TestTwo (0.00s)\n"}`,
		`{"Action":"fail","Package":"a","Test":"TestTwo"}`,
		`{"Action":"output","Package":"a","Test":"TestThree","Output":"    three_test.go:3: a word\n"}`,
		`{"Action":"pass","Package":"a","Test":"TestThree"}`,
		`{"Action":"output","Package":"a","Test":"TestFour","Output":"=== RUN   TestFour\n"}`,
		`{"Action":"output","Package":"a","Test":"TestFour","Output":"panic: test timed out after 1s\n"}`,
		`{"Action":"output","Package":"a","Output":"FAIL\n"}`,
		`{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}`,
		`{"Action":"fail","Package":"a"}`,
		`go: a plain line`,
		`{"Action":"output","Package":"b","Test":"TestOne","Output":"    b_test.go:3: needs the lab\n"}`,
		`{"Action":"skip","Package":"b","Test":"TestOne"}`,
		`{"Action":"output","Package":"b","Test":"TestTwo","Output":"    b_test.go:9: needs the lab\n"}`,
		`{"Action":"skip","Package":"b","Test":"TestTwo"}`,
		`{"Action":"skip","Package":"b","Test":"TestThree"}`,
		`{"Action":"output","Package":"b","Output":"PASS\n"}`,
		`{"Action":"output","Package":"b","Output":"ok  \tb\t0.2s\n"}`,
		`{"Action":"pass","Package":"b"}`,
		`{"Action":"output","Package":"c","Output":"?   \tc\t[no test files]\n"}`,
		`{"Action":"skip","Package":"c"}`,
	}, "\n")
	want := `a.go:1:1: wrong
    two_test.go:3: broken
--- FAIL: TestTwo (0.00s)
FAIL
FAIL	a	0.1s
panic: test timed out after 1s
go: a plain line
ok  	b	0.2s
?   	c	[no test files]
skipped tests: 4
     2  needs the lab
     1  needs root
     1  without a reason
`
	var out strings.Builder
	o := newOutcome()
	if err := errors.Join(o.read(strings.NewReader(in), &out), summary(&out, o.reasons)); err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, &out)
	}
}

// result is what one call of go test prints, and whether it fails.
type result struct {
	out    string
	failed bool
}

const (
	failing = `{"Action":"fail","Package":"x/a","Test":"TestOne/sub"}
{"Action":"fail","Package":"x/a","Test":"TestOne"}
{"Action":"output","Package":"x/a","Output":"FAIL\n"}
{"Action":"fail","Package":"x/a"}`
	passing  = `{"Action":"output","Package":"x/a","Output":"ok  \tx/a\t0.1s\n"}`
	crashing = `{"Action":"fail","Package":"x/a","Test":"TestOne"}
{"Action":"output","Package":"x/a","Output":"FAIL\tx/a\t0.1s\n"}
{"Action":"fail","Package":"x/a"}`
	uncompiled = `{"ImportPath":"x/a","Action":"build-fail"}
{"Action":"output","Package":"x/b","Output":"FAIL\tx/b [build failed]\n"}
{"Action":"fail","Package":"x/b"}`
)

func TestFailedTestRunsOnceMore(t *testing.T) {
	t.Parallel()
	four := ""
	for _, name := range []string{"TestOne", "TestTwo", "TestThree", "TestFour"} {
		four += strings.ReplaceAll(failing, "TestOne", name) + "\n"
	}
	for name, c := range map[string]struct {
		results []result
		ok      bool
		want    string
	}{
		"all pass":                    {[]result{{passing, false}}, true, "no test was skipped\n"},
		"one fails, and passes alone": {[]result{{failing, true}, {passing, false}}, true, "UNSTABLE: TestOne of x/a failed beside others, and passed alone\n"},
		"one fails twice":             {[]result{{failing, true}, {failing, true}}, false, "once more, alone: TestOne of x/a\n"},
		"a crash":                     {[]result{{crashing, true}}, false, "no test was skipped\n"},
		"a compile error":             {[]result{{failing + "\n" + uncompiled, true}}, false, "no test was skipped\n"},
		"four fail":                   {[]result{{four, true}}, false, "no test was skipped\n"},
		"go fails":                    {[]result{{passing, true}}, false, "no test was skipped\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			var calls [][]string
			err := judge(t.Context(), []string{"-p", "3", "./a", "x/b"}, func(_ context.Context, args []string, read func(io.Reader) error) (failed, err error) {
				calls = append(calls, args)
				r := c.results[len(calls)-1]
				if r.failed {
					failed = errors.New("exit status 1")
				}
				return failed, read(strings.NewReader(r.out))
			}, &out)
			if err == nil != c.ok || len(calls) != len(c.results) || !strings.Contains(out.String(), c.want) {
				t.Errorf("%v after %d calls:\n%s", err, len(calls), &out)
			}
			if want := []string{"-p", "3", "-count=1", "-run", "^TestOne$", "x/a"}; len(calls) == 2 && !slices.Equal(calls[1], want) {
				t.Errorf("ran %q, not %q", calls[1], want)
			}
		})
	}
}
