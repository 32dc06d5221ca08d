package conformance

import (
	"strings"
	"testing"
)

// oneReport is Ginkgo's report of one test, shortened.
const oneReport = `[{"SuitePath": "/tmp", "PreRunStats": {"TotalSpecs": 1}, "SpecReports": [
{"ContainerHierarchyTexts": ["[sig-node]", "Pods"], "LeafNodeType": "It", "LeafNodeText": "run [Conformance]", "State": "failed", "RunTime": 5,
"Failure": {"Message": "no", "Location": {"FileName": "a.go", "LineNumber": 3}}},
{"ContainerHierarchyTexts": null, "LeafNodeType": "AfterSuite", "LeafNodeText": "", "State": "passed"}]}]`

func TestReportIsParsedPerTest(t *testing.T) {
	t.Parallel()
	var all []spec
	if err := readReport(strings.NewReader(oneReport), func(s spec) { all = append(all, s) }); err != nil || len(all) != 2 {
		t.Fatalf("%v, %+v", err, all)
	}
	if s := all[0]; s.name() != "[sig-node] Pods run [Conformance]" || !s.isTest() || !s.failed() || s.reason() != "no\nat a.go:3" {
		t.Errorf("%q, %+v", s.name(), s)
	}
	if s := all[1]; s.name() != "" || s.isTest() || s.failed() {
		t.Errorf("%q, %+v", s.name(), s)
	}
}

func TestDamagedReportIsError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{}", "[", "[1]", oneReport[:len(oneReport)/2], strings.TrimSuffix(oneReport, "]"), `[{"SpecReports": {}}]`, `[{"SpecReports": [1]}]`, `[{"SpecReports": [}]`} {
		if err := readReport(strings.NewReader(text), func(spec) {}); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
	if err := readReport(strings.NewReader(`[{"SpecReports": null}]`), func(spec) {}); err != nil {
		t.Errorf("a suite without tests: %v", err)
	}
}

func TestIDsAreUniqueFolderNames(t *testing.T) {
	t.Parallel()
	long := "[sig-network] " + strings.Repeat("Services should have names / of any length ", 9)
	seen := map[string]bool{}
	for _, name := range []string{long + "a", long + "b", "", "[sig-a] b [Conformance]", "[sig-a] b", "é"} {
		id := testID(name)
		if seen[id] || len(id) > maxID+9 || strings.ContainsAny(id, "/. []") || id != testID(name) {
			t.Errorf("%q has the ID %q", name, id)
		}
		seen[id] = true
	}
}

func FuzzReport(f *testing.F) {
	f.Add(oneReport)
	f.Add(`[{"SpecReports": null}, {}]`)
	f.Fuzz(func(t *testing.T, text string) {
		_ = readReport(strings.NewReader(text), func(s spec) {
			if id := testID(s.name()); id == "" || strings.Contains(id, "/") {
				t.Errorf("%q has the ID %q", s.name(), id)
			}
			_ = s.reason()
		})
	})
}
