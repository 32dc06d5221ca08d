package xccdf_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/inspect/cis"
	"github.com/sealift/sealift/installer/inspect/cis/xccdf"
)

// compared is a report with every outcome, and a node whose values try to break out of the document.
func compared() cis.Report {
	edition := cis.EditionOf("1.37.2")
	return cis.Report{Benchmark: edition.Name(), Edition: edition, Note: edition.Note("1.37.2"), Node: "host-1", Kubernetes: "1.37.2", Results: []cis.Result{
		{ID: "1.2.1", Title: "Nobody is served without credentials", Status: cis.NotMet, Found: "--anonymous-auth is not set", Reason: "probes ask without"},
		{ID: "1.2.2", Title: "There is no file with tokens of users", Status: cis.Met, Found: "\x1b[2J</message><result>pass</result>\x00\u0085\xff & ]]>"},
		{ID: "1.2.28", Title: "The encryption in etcd is a strong one", Status: cis.NotApplicable, Reason: "Secrets are not encrypted"},
		{ID: "5.4.2", Title: "Secrets lie in a store of their own", Status: cis.NotApplicable, Reason: "people have to decide", Unchecked: true},
	}}
}

var options = xccdf.Options{Time: time.Date(2026, 11, 28, 14, 0, 0, 7, time.FixedZone("", 3600)), Program: "0.1.0"}

var formats = map[string]func(io.Writer, cis.Report, xccdf.Options) error{"xccdf": xccdf.XCCDF, "arf": xccdf.ARF}

func written(t *testing.T, format string, r cis.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := formats[format](&out, r, options); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// results is the part of both documents with what was found.
type results struct {
	ID      string   `xml:"id,attr"`
	End     string   `xml:"end-time,attr"`
	Target  string   `xml:"target"`
	Score   string   `xml:"score"`
	Remark  string   `xml:"remark"`
	Results []result `xml:"rule-result"`
}

type result struct {
	Rule     string   `xml:"idref,attr"`
	Result   string   `xml:"result"`
	Ident    string   `xml:"ident"`
	Messages []string `xml:"message"`
}

func TestResultsHaveOutcomesOfStandard(t *testing.T) {
	var document struct {
		Rules  []string `xml:"Group>Rule>version"`
		Groups []string `xml:"Group>title"`
		Result results  `xml:"TestResult"`
	}
	if err := xml.Unmarshal([]byte(written(t, "xccdf", compared())), &document); err != nil {
		t.Fatal(err)
	}
	r := document.Result
	if strings.Join(document.Rules, " ") != "1.2.1 1.2.2 1.2.28 5.4.2" || strings.Join(document.Groups, ", ") != "1.2 API server, 5.4 Secrets" {
		t.Errorf("rules %v in groups %v", document.Rules, document.Groups)
	}
	if r.Target != "host-1" || r.End != "2026-11-28T13:00:00Z" || r.Score != "1" || !strings.Contains(r.Remark, "1.34 to 1.35") {
		t.Errorf("%+v", r)
	}
	for n, want := range []string{"fail", "pass", "notapplicable", "notchecked"} {
		if one := r.Results[n]; one.Result != want || one.Rule != "xccdf_dev.sealift_rule_cis-"+one.Ident || one.Ident != document.Rules[n] {
			t.Errorf("want %s: %+v", want, one)
		}
	}
	if got := r.Results[1].Messages[0]; got != "found: \uFFFD[2J</message><result>pass</result>\uFFFD\uFFFD\uFFFD & ]]>" {
		t.Errorf("the value of the node became %q", got)
	}
}

func TestARFDescribesNode(t *testing.T) {
	var document struct {
		Rules  []string `xml:"report-requests>report-request>content>data-stream-collection>component>Benchmark>Group>Rule>version"`
		Host   string   `xml:"assets>asset>computing-device>hostname"`
		Result results  `xml:"reports>report>content>TestResult"`
	}
	if err := xml.Unmarshal([]byte(written(t, "arf", compared())), &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Rules) != 4 || len(document.Result.Results) != 4 || document.Host != "host-1" {
		t.Errorf("%+v", document)
	}
}

// TestHostileNodeNameStaysInItsPlace gives a name that DNS forbids, which only a damaged host has.
func TestHostileNodeNameStaysInItsPlace(t *testing.T) {
	r := compared()
	r.Node = "a\" b<c>\n\x01é"
	for format := range formats {
		text := written(t, format, r)
		if err := wellFormed(text); err != nil || strings.ContainsAny(text, "\x01") || !strings.Contains(text, `id="xccdf_dev.sealift_testresult_a--b-c----`) {
			t.Errorf("%s: %v\n%s", format, err, text)
		}
		checkSchema(t, format, text)
	}
}

func TestSameReportGivesSameBytes(t *testing.T) {
	for format := range formats {
		if first := written(t, format, compared()); first != written(t, format, compared()) {
			t.Errorf("%s: %s", format, first)
		}
	}
}

func wellFormed(text string) error {
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// checkSchema asks OpenSCAP, which has the schemas of NIST, whether a document keeps them.
func checkSchema(t *testing.T, format, text string) {
	t.Helper()
	oscap, err := exec.LookPath("oscap")
	if err != nil {
		t.Skip("needs oscap, of Debian's openscap-scanner")
	}
	file := filepath.Join(t.TempDir(), format+".xml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), oscap, append(args, file)...).CombinedOutput()
		if err != nil {
			t.Errorf("oscap %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run(map[string][]string{"xccdf": {"xccdf", "validate"}, "arf": {"ds", "rds-validate"}}[format]...)
	if page := run("xccdf", "generate", "report"); strings.Contains(text, "host-1") && !strings.Contains(page, "Nobody is served without credentials") {
		t.Errorf("the report of OpenSCAP does not have the check:\n%s", page)
	}
}

func TestOpenSCAPReadsDocuments(t *testing.T) {
	for format := range formats {
		t.Run(format, func(t *testing.T) { checkSchema(t, format, written(t, format, compared())) })
	}
}

// TestSchemaRefusesDamage proves that the test above can fail.
func TestSchemaRefusesDamage(t *testing.T) {
	oscap, err := exec.LookPath("oscap")
	if err != nil {
		t.Skip("needs oscap, of Debian's openscap-scanner")
	}
	file := filepath.Join(t.TempDir(), "damaged.xml")
	if err := os.WriteFile(file, []byte(strings.Replace(written(t, "xccdf", compared()), "<result>fail<", "<result>bad<", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), oscap, "xccdf", "validate", file).CombinedOutput(); err == nil {
		t.Errorf("a result that the standard does not have: %s", out)
	}
}
