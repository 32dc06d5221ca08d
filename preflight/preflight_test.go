package preflight_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/testgrid/lab/daemon"
)

func mixed() []preflight.Check {
	return []preflight.Check{
		{Name: "good", Probe: func(_ context.Context, r *preflight.Reporter) { r.Passf("fine") }},
		{Name: "odd", Probe: func(_ context.Context, r *preflight.Reporter) { r.Warnf("look", "odd %d", 1) }},
		{Name: "bad", Probe: func(_ context.Context, r *preflight.Reporter) {
			r.Failf("mend it", "broken")
			r.Failf("", "lost")
		}},
		{Name: "silent", Probe: func(context.Context, *preflight.Reporter) {}},
	}
}

func TestRunCollectsEveryAnswer(t *testing.T) {
	report, err := preflight.Run(t.Context(), mixed())
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	const want = `RESULT  CHECK  FOUND
pass    good   fine
warn    odd    odd 1
               → look
fail    bad    broken
               → mend it
fail    bad    lost
`
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("table (-want +got)\n%s", diff)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	const wantJSON = `{"results":[{"check":"good","status":"pass","message":"fine"},` +
		`{"check":"odd","status":"warn","message":"odd 1","hint":"look"},` +
		`{"check":"bad","status":"fail","message":"broken","hint":"mend it"},{"check":"bad","status":"fail","message":"lost"}]}`
	if diff := cmp.Diff(wantJSON, string(text)); diff != "" {
		t.Errorf("JSON (-want +got)\n%s", diff)
	}
	const wantErr = "this host is not ready:\n  bad: broken; mend it\n  bad: lost"
	var refused *preflight.RefusedError
	if err := report.Err(preflight.Policy{}); !errors.As(err, &refused) || err.Error() != wantErr {
		t.Errorf("got %v, want %s", err, wantErr)
	}
}

// TestCheckAheadRunsBesideOthers has two checks, each of which ends only when the other one has begun.
func TestCheckAheadRunsBesideOthers(t *testing.T) {
	slow, other := make(chan struct{}), make(chan struct{})
	ahead := preflight.Check{Name: "slow", Probe: func(_ context.Context, r *preflight.Reporter) {
		close(slow)
		<-other
		r.Passf("slow")
	}}
	report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "other", Probe: func(_ context.Context, r *preflight.Reporter) {
		<-slow
		close(other)
		r.Passf("other")
	}}, ahead.Ahead(t.Context())})
	want := []preflight.Result{{Check: "other", Status: preflight.Pass, Message: "other"}, {Check: "slow", Status: preflight.Pass, Message: "slow"}}
	if err != nil || !slices.Equal(report.Results, want) {
		t.Errorf("got %v, %v", report.Results, err)
	}
}

func TestWarningsDoNotRefuse(t *testing.T) {
	report, err := preflight.Run(t.Context(), mixed()[:2])
	if err != nil || report.Err(preflight.Policy{}) != nil || report.Count(preflight.Warn) != 1 {
		t.Errorf("got %v, %v, %+v", err, report.Err(preflight.Policy{}), report)
	}
}

func TestPolicyDecidesRefusal(t *testing.T) {
	final := preflight.Check{Name: "hopeless", Probe: func(_ context.Context, r *preflight.Reporter) { r.Refusef("give up", "no") }}
	tests := map[string]struct {
		checks []preflight.Check
		policy preflight.Policy
		want   string // that the refusal names; "" for none
	}{
		"failures refuse":                            {mixed(), preflight.Policy{}, "bad: broken"},
		"failures that are ignored":                  {mixed(), preflight.Policy{Ignore: true}, ""},
		"what cannot be ignored":                     {append(mixed(), final), preflight.Policy{Ignore: true}, "hopeless: no; give up"},
		"warnings that are enforced":                 {mixed()[:2], preflight.Policy{EnforceWarnings: true}, "odd: odd 1; look"},
		"warnings that are enforced and ignored":     {mixed()[:2], preflight.Policy{EnforceWarnings: true, Ignore: true}, ""},
		"good answers, whatever there is to enforce": {mixed()[:1], preflight.Policy{EnforceWarnings: true}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			report, err := preflight.Run(t.Context(), tt.checks)
			if err != nil {
				t.Fatal(err)
			}
			record := preflight.NewRecord(preflight.Node{}, tt.policy, report)
			err = record.Err()
			if record.Refused != (tt.want != "") || (err != nil) != record.Refused || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("refused %v: %v", record.Refused, err)
			}
			if ignored := record.Ignored(); tt.policy.Ignore && report.Count(preflight.Fail) > 1 && len(ignored) != 2 {
				t.Errorf("ignored %+v", ignored)
			}
		})
	}
}

func TestRecordsAreKept(t *testing.T) {
	report, err := preflight.Run(t.Context(), mixed())
	if err != nil {
		t.Fatal(err)
	}
	record := preflight.NewRecord(preflight.Node{Primary: true}, preflight.Policy{Ignore: true}, report)
	dir := filepath.Join(t.TempDir(), "state", "preflight")
	if err := record.Save(dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var kept preflight.Record
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record, kept); diff != "" {
		t.Errorf("(-made +kept)\n%s", diff)
	}
}

func TestRunStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	checks := append([]preflight.Check{{Name: "last", Probe: func(_ context.Context, r *preflight.Reporter) {
		r.Passf("asked")
		cancel()
	}}}, mixed()...)
	report, err := preflight.Run(ctx, checks)
	if !errors.Is(err, context.Canceled) || len(report.Results) != 1 {
		t.Errorf("got %v, %+v", err, report)
	}
}

func TestHostReportsOccupiedPort(t *testing.T) {
	for name, address := range map[string]string{"on every address": "", "on loopback only": "127.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			free, err := daemon.FreeAddress() // the kernel would give a port of :0 to the next connection of another process
			if err != nil {
				t.Fatal(err)
			}
			_, port, _ := strings.Cut(free, ":")
			listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			taken := listener.Addr().(*net.TCPAddr).Port
			ask := func() preflight.Status {
				host, err := preflight.ThisHost("debian-12")
				if err != nil {
					t.Fatal(err)
				}
				report, err := preflight.Run(t.Context(), preflight.Builtin(host, preflight.Needs{Ports: []int{taken}}))
				if err != nil {
					t.Fatal(err)
				}
				at := slices.IndexFunc(report.Results, func(r preflight.Result) bool { return r.Check == "ports" })
				return report.Results[at].Status
			}
			if got := ask(); got != preflight.Fail {
				t.Errorf("a port in use: %s", got)
			}
			listener.Close()
			if got := ask(); got != preflight.Pass {
				t.Errorf("the same port after its listener has gone: %s", got)
			}
		})
	}
}

func TestHostMeasuresMissingDirectories(t *testing.T) {
	host, err := preflight.ThisHost("debian-12")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	there, err := host.Disk(dir)
	if err != nil {
		t.Fatal(err)
	}
	missing, err := host.Disk(filepath.Join(dir, "not", "yet"))
	if err != nil {
		t.Fatal(err)
	}
	if there.Device != missing.Device || missing.Bytes == 0 {
		t.Errorf("%+v and %+v", there, missing)
	}
}
