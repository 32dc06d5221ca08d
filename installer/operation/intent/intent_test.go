package intent_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/operation/intent"
)

func valid() intent.Intent {
	return intent.Intent{Upgrade: "0123456789abcdef", Operation: intent.Prepare, Attempt: 2, Index: strings.Repeat("a", 64), Sealift: strings.Repeat("b", 64), Server: "10.0.0.1:6445", From: "1.35.4"}
}

func TestIntentsAndReportsRoundTrip(t *testing.T) {
	in := valid()
	got, err := intent.Parse(in.Encode())
	if diff := cmp.Diff(in, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	report := intent.Report{Upgrade: in.Upgrade, Operation: in.Operation, Attempt: 2, State: intent.Failed, Step: "kubernetes/upgrade", Error: "no", Began: time.Unix(1e9, 0).UTC(), Seconds: 1.5}
	if read, err := intent.ParseReport(report.Encode()); err != nil || !cmp.Equal(report, read) || !read.Answers(in) {
		t.Errorf("%+v, %v", read, err)
	}
	host := intent.Host{Sealift: "v1", Time: time.Unix(1e9, 0).UTC(), Free: intent.Space{Bytes: 1, Inodes: 2}, Images: intent.Space{Bytes: 3, Inodes: 4}}
	if read, err := intent.ParseHost(host.Encode()); err != nil || !cmp.Equal(host, read) {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestUndoNeedsNoBundle(t *testing.T) {
	in := intent.Intent{Upgrade: "0123456789abcdef", Operation: intent.Undo, Attempt: 1, From: "1.35.4", UpgradeID: "0123456789abcdef"}
	if got, err := intent.Parse(in.Encode()); err != nil || !cmp.Equal(in, got) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOrderNeedsDigestAndServer(t *testing.T) {
	in := intent.Intent{Upgrade: "0123456789abcdef", Operation: intent.PrepareUndo, Attempt: 1, Index: strings.Repeat("a", 64), Server: "10.0.0.1:6445", UpgradeID: "0123456789abcdef"}
	if got, err := intent.Parse(in.Encode()); err != nil || !cmp.Equal(in, got) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, spoil := range map[string]func(*intent.Intent){
		"no digest":  func(in *intent.Intent) { in.Index = "" },
		"no server":  func(in *intent.Intent) { in.Server = "" },
		"no upgrade": func(in *intent.Intent) { in.UpgradeID = "" },
	} {
		in := in
		spoil(&in)
		if got, err := intent.Parse(in.Encode()); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRotationNeedsServerAndNoBundle(t *testing.T) {
	in := intent.Intent{Upgrade: "0123456789abcdef", Operation: intent.Rotate, Attempt: 1, Server: "10.0.0.1:6445"}
	if got, err := intent.Parse(in.Encode()); err != nil || !cmp.Equal(in, got) {
		t.Errorf("%+v, %v", got, err)
	}
	in.Server = ""
	if got, err := intent.Parse(in.Encode()); err == nil {
		t.Errorf("without a server: %+v", got)
	}
}

func TestChangeOfLoadBalancerNeedsNoServer(t *testing.T) {
	for _, to := range []string{"10.0.0.9:6443", "api.example.com:443", "[fd00::9]:6443"} {
		in := intent.Intent{Upgrade: "0123456789abcdef", Operation: intent.Balance, Attempt: 1, Move: &intent.Move{From: "10.0.0.1:6443", To: to, Stage: "switch"}}
		if got, err := intent.Parse(in.Encode()); err != nil || !cmp.Equal(in, got) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestImagesNeedBundleAndNoProgram(t *testing.T) {
	in := intent.Intent{Upgrade: "images-a", Operation: intent.Images, Attempt: 1, Index: strings.Repeat("a", 64), Server: "10.0.0.1:6445"}
	if got, err := intent.Parse(in.Encode()); err != nil || !cmp.Equal(in, got) {
		t.Errorf("%+v, %v", got, err)
	}
	in.Index = "latest"
	if got, err := intent.Parse(in.Encode()); err == nil {
		t.Errorf("without a digest: %+v", got)
	}
}

// TestStagesAreReadByAgentsOfEarlierSealift writes what such an agent understands besides the stage, and reads what such a control
// plane writes.
func TestStagesAreReadByAgentsOfEarlierSealift(t *testing.T) {
	images := intent.Intent{Upgrade: "u", Operation: intent.Images, Attempt: 1, Server: "10.0.0.1:6445", Stage: "images/load", Params: []byte(`{"index":"` + strings.Repeat("a", 64) + `"}`)}
	move := intent.Intent{Upgrade: "u", Operation: intent.Balance, Attempt: 1, Server: "10.0.0.1:6445", Stage: "load-balancer/beside", Params: []byte(`{"from":"10.0.0.1:6443","to":"10.0.0.9:6443"}`)}
	for _, in := range []intent.Intent{images, move} {
		got, err := intent.Parse(in.WithEarlier().Encode())
		if err != nil {
			t.Fatal(err)
		}
		old := got
		old.Stage, old.Params = "", nil
		if _, err := intent.Parse(old.Encode()); err != nil {
			t.Errorf("an earlier agent: %v", err)
		}
		for _, of := range []intent.Intent{got, old} {
			if stage, params := of.Asked(); stage != in.Stage || string(params) != string(in.Params) {
				t.Errorf("%s: %s %s", in.Operation, stage, params)
			}
		}
	}
	unknown := intent.Intent{Upgrade: "u", Operation: "clock", Attempt: 1, Server: "10.0.0.1:6445", Stage: "clock/use"}
	if _, err := intent.Parse(unknown.Encode()); err != nil {
		t.Errorf("an operation of a table: %v", err)
	}
	unknown.Server = "nowhere"
	if _, err := intent.Parse(unknown.Encode()); err == nil {
		t.Error("it needs a server")
	}
}

func TestReportBelongsToOneAttempt(t *testing.T) {
	in := valid()
	report := intent.Report{Upgrade: in.Upgrade, Operation: in.Operation, Attempt: 1, State: intent.Failed}
	if report.Answers(in) {
		t.Error("the report of the first attempt answers the second")
	}
	if next := intent.Later(report, in.Upgrade); next != 2 {
		t.Errorf("after attempt 1 comes %d", next)
	}
	if next := intent.Later(report, "another"); next != 1 {
		t.Errorf("another upgrade begins with attempt %d", next)
	}
}

// TestNextNumberIsAboveAllEarlierOnes has requests from a time when a clock was ahead.
func TestNextNumberIsAboveAllEarlierOnes(t *testing.T) {
	now := time.Unix(1e9, 0)
	ahead := now.AddDate(1, 2, 0).UnixNano()
	for name, row := range map[string]struct {
		report intent.Report
		want   int64
	}{
		"no report":                         {intent.Report{}, now.UnixNano()},
		"an earlier request":                {intent.Report{Number: 7}, now.UnixNano()},
		"a request of a clock ahead":        {intent.Report{Number: ahead}, ahead + 1},
		"a refusal after an undo":           {intent.Report{Number: 7, Accepted: ahead}, ahead + 1},
		"a hostile node's highest number":   {intent.Report{Number: math.MaxInt64}, now.UnixNano()},
		"a hostile node's highest accepted": {intent.Report{Number: ahead, Accepted: math.MaxInt64}, ahead + 1},
	} {
		if got := row.report.Next(now); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
}

func TestInvalidIntentsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*intent.Intent){
		"no upgrade":           func(in *intent.Intent) { in.Upgrade = "" },
		"no attempt":           func(in *intent.Intent) { in.Attempt = 0 },
		"an unknown operation": func(in *intent.Intent) { in.Operation = "reset" },
		"no digest":            func(in *intent.Intent) { in.Index = "" },
		"a short digest":       func(in *intent.Intent) { in.Index = "abcd" },
		"no digest of sealift": func(in *intent.Intent) { in.Sealift = "../../etc/passwd" },
		"no port":              func(in *intent.Intent) { in.Server = "10.0.0.1" },
		"an undo of nothing":   func(in *intent.Intent) { in.Operation = intent.Undo },
		"an undo of a path":    func(in *intent.Intent) { in.Operation, in.UpgradeID = intent.Undo, "../../../../etc" },
		"a path to keep":       func(in *intent.Intent) { in.UpgradeID = "../0123456789abc" },
		"a long text":          func(in *intent.Intent) { in.From = strings.Repeat("x", 20<<10) },
		"no load balancer":     func(in *intent.Intent) { in.Operation = intent.Balance },
		"no port of one": func(in *intent.Intent) {
			in.Operation, in.Move = intent.Balance, &intent.Move{From: "10.0.0.1:6443", To: "10.0.0.9"}
		},
		"more than a name": func(in *intent.Intent) {
			in.Operation, in.Move = intent.Balance, &intent.Move{From: "10.0.0.1:6443", To: "10.0.0.9\nuser: x:6443"}
		},
	} {
		in := valid()
		spoil(&in)
		if got, err := intent.Parse(in.Encode()); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, text := range []string{"", "{", "[]", "null", `"x"`} {
		if got, err := intent.Parse(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestLongErrorIsCut keeps the annotations of a Node small: Kubernetes takes 256 KiB of them.
func TestLongErrorIsCut(t *testing.T) {
	if text := (intent.Report{Error: strings.Repeat("x", 1<<20)}).Encode(); len(text) > 4<<10 {
		t.Errorf("%d bytes", len(text))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(valid().Encode())
	f.Add(`{"upgrade":"x","attempt":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		in, err := intent.Parse(text)
		if err != nil {
			return
		}
		if again, err := intent.Parse(in.Encode()); err != nil || !cmp.Equal(in, again) {
			t.Errorf("%q became %+v, and then %+v, %v", text, in, again, err)
		}
		_, _ = intent.ParseReport(text)
		_, _ = intent.ParseHost(text)
	})
}

func FuzzOpen(f *testing.F) {
	in := valid()
	f.Add(in.Encode())
	f.Add(strings.TrimSuffix(in.Encode(), "}") + `,"signature":{"certificate":"MAA=","value":"MAA="}}`)
	f.Add(`,"signature":`)
	f.Fuzz(func(t *testing.T, text string) {
		if in, by, err := (intent.Reader{Node: "host-1", Role: intent.Worker, Now: time.Now()}).Open(text); err == nil {
			t.Errorf("%q asks for %+v by %q, and no CA is trusted", text, in, by)
		}
	})
}
