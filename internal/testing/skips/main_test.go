package main

import (
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
	if err := report(strings.NewReader(in), &out); err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestReportWithoutSkipsSaysSo(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := report(strings.NewReader(`{"Action":"output","Package":"a","Output":"ok  \ta\t0.1s\n"}`), &out); err != nil || out.String() != "ok  \ta\t0.1s\nno test was skipped\n" {
		t.Errorf("%v\n%s", err, &out)
	}
}
