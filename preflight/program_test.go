package preflight_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/preflight"
)

// program builds sealift-preflight with the flags of 'make build', which has compiled most of it.
func program(t *testing.T) preflight.Program {
	t.Helper()
	name := filepath.Join(t.TempDir(), preflight.ProgramName)
	short.Skip(t, "sealift-preflight")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", name, "../cmd/sealift-preflight")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return preflight.Program{Path: name, Log: t.Output()}
}

func hostPreflight(name, collectors, analyzers string) []byte {
	return fmt.Appendf(nil, "apiVersion: troubleshoot.sh/v1beta2\nkind: HostPreflight\nmetadata: {name: %s}\nspec:\n  collectors: %s\n  analyzers: %s\n", name, collectors, analyzers)
}

func TestProgramAsksTroubleshoot(t *testing.T) {
	p := program(t)
	taken, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	const inUse = "outcomes: [{fail: {when: address-in-use, message: taken}}, {pass: {when: connected, message: free}}, {warn: {message: unclear}}]"
	pass := func(check, message string) preflight.Result {
		return preflight.Result{Check: check, Status: preflight.Pass, Message: message}
	}
	fail := func(check, message string) preflight.Result {
		return preflight.Result{Check: check, Status: preflight.Fail, Message: message}
	}
	tests := map[string]struct {
		specs [][]byte
		want  []preflight.Result
	}{
		"nothing to ask": {nil, []preflight.Result{}},
		"a port that is in use": {[][]byte{hostPreflight("web", fmt.Sprintf("[{tcpPortStatus: {collectorName: p, port: %d}}]", port), "[{tcpPortStatus: {checkName: Port, collectorName: p, "+inUse+"}}]")},
			[]preflight.Result{fail("web: Port", "taken")}},
		"two that use one name for different things": {[][]byte{
			hostPreflight("one", "[{run: {collectorName: x, command: echo, args: [left]}}]", "[{textAnalyze: {checkName: A, fileName: host-collectors/run-host/x.txt, regex: left, outcomes: [{pass: {when: 'true', message: 'yes'}}, {fail: {when: 'false', message: 'no'}}]}}]"),
			hostPreflight("two", "[{run: {collectorName: x, command: echo, args: [right]}}]", "[{textAnalyze: {checkName: A, fileName: host-collectors/run-host/x.txt, regex: left, outcomes: [{pass: {when: 'true', message: 'yes'}}, {fail: {when: 'false', message: 'no'}}]}}]"),
		}, []preflight.Result{pass("one: A", "yes"), fail("two: A", "no")}},
		"an analyzer without a collector of its own": {[][]byte{
			hostPreflight("rules", "[]", "[{cpu: {checkName: C, outcomes: [{fail: {when: 'count < 1', message: few}}, {pass: {message: enough}}]}}]"),
			hostPreflight("host", "[{cpu: {}}]", "[]"),
		}, []preflight.Result{pass("rules: C", "enough")}},
		"what is excluded is neither collected nor analyzed": {[][]byte{
			hostPreflight("x", "[{run: {collectorName: x, exclude: 'true', command: 'false'}}]", "[{cpu: {exclude: true, outcomes: [{fail: {message: 'no'}}]}}]")},
			[]preflight.Result{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := p.Check(t.Context(), tt.specs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	t.Run("what cannot be told is a warning, and what cannot be read a failure", func(t *testing.T) {
		got, err := p.Check(t.Context(), [][]byte{
			hostPreflight("odd", "[{noSuchThing: {}}]", "[{memory: {outcomes: [{pass: {message: 'x'}}]}}]"),
			[]byte("apiVersion: troubleshoot.sh/v1beta2\nkind: HostPreflight\nmetadata: {name: bad}\nspec: {collectors: 1}\n"),
		})
		if err != nil {
			t.Fatal(err)
		}
		var answers []string
		for _, r := range got {
			if r.Hint == "" {
				t.Errorf("no hint: %+v", r)
			}
			answers = append(answers, fmt.Sprintf("%s %s", r.Status, r.Check))
		}
		if diff := cmp.Diff([]string{"fail bad: specification", "warn odd: collector", "warn odd: Amount of Memory"}, answers); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("a support bundle", func(t *testing.T) { collects(t, p) })
}

// collects lets the program collect, and checks the files.
func collects(t *testing.T, p preflight.Program) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ours.txt"), []byte("proxy http://ship:anchor@10.0.0.1/ is used\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := "apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nmetadata: {name: x}\nspec:\n  hostCollectors:\n" +
		"  - run: {collectorName: said, command: echo, args: ['https://ship:anchor@10.0.0.1/']}\n  - run: {collectorName: lost, command: /no/such/program}\n" +
		"  hostAnalyzers:\n  - textAnalyze: {checkName: Said, fileName: host-collectors/run-host/said.txt, regex: https, outcomes: [{pass: {when: 'true', message: 'yes'}}]}\n" +
		"  afterCollection:\n  - uploadResultsTo: {uri: 'http://127.0.0.1:1/', method: PUT}\n"
	got, err := p.Collect(t.Context(), dir, filepath.Join(dir, "no-kubeconfig"), [][]byte{[]byte(spec)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]preflight.Result{{Check: "x: Said", Status: preflight.Pass, Message: "yes"}}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, name := range []string{"ours.txt", "host-collectors/run-host/said.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || bytes.Contains(text, []byte("anchor")) || !bytes.Contains(text, []byte("HIDDEN")) {
			t.Errorf("%s: %v, %q", name, err, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "collector-errors", "cluster.txt")); err != nil {
		t.Errorf("nothing says that the cluster was not asked: %v", err)
	}
}

// TestMisbehavingProgramIsReported has shell scripts instead of the program: the real one does none of this on demand.
func TestMisbehavingProgramIsReported(t *testing.T) {
	tests := map[string]struct {
		script string
		set    func(*preflight.Program)
		want   string
	}{
		"it hangs, and so does what it has started": {"sleep 100000 & sleep 100000", func(p *preflight.Program) { p.Time = 200 * time.Millisecond }, "took more than 200ms"},
		"it fails":                        {"echo because >&2; exit 4", nil, "exit status 4: because"},
		"it grows":                        {"cat >/dev/null; x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}", func(p *preflight.Program) { p.Memory = 64 << 20 }, ""},
		"it prints what is not a report":  {"echo hello", nil, "printed no report"},
		"it gives an answer that is none": {`echo '{"results":[{"check":"x","status":"perhaps"}]}'`, nil, `the status "perhaps"`},
		"it prints without end":           {"yes", nil, ""},
		"it is not there":                 {"", func(p *preflight.Program) { p.Path = "/no/such/program" }, "start /no/such/program"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			if err := fixture.WriteProgram(path, "#!/bin/sh\n"+tt.script+"\n"); err != nil {
				t.Fatal(err)
			}
			p := preflight.Program{Path: path}
			if tt.set != nil {
				tt.set(&p)
			}
			_, err := p.Check(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("its caller gives up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := (preflight.Program{Path: "/bin/cat"}).Check(ctx, nil); err == nil {
			t.Error("no error")
		}
	})
}
