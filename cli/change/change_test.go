package change

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/fixture"
)

var errAlive, errDisk = errors.New("it is alive"), errors.New("the disk is full")

// driven is the record and output of one run of a command.
type driven struct {
	out, errOut bytes.Buffer
	did         []string
	err         error
}

// drive runs a command that records its calls.
func drive(in io.Reader, f Flags, adjust func(*Work)) *driven {
	var d driven
	a := &app.App{In: in, Out: &d.out, Err: &d.errOut}
	result := func(what string) Result {
		return Result{Document: map[string]string{"did": what}, Text: Line(a.Out, "did %s", what)}
	}
	w := Work{
		To: "remove the node", Question: "Remove it?",
		Plan:  func() (Result, error) { d.did = append(d.did, "plan"); return result("plan"), nil },
		Check: func(context.Context) error { d.did = append(d.did, "check"); return nil },
		Run: func(_ context.Context, p *Progress) (Result, error) {
			d.did = append(d.did, "run")
			p.Line("removed its member")
			p.Waiting("node-2_0123")
			return result("run"), nil
		},
	}
	if adjust != nil {
		adjust(&w)
	}
	d.err = Do(context.Background(), a, f, w)
	return &d
}

const events = "removed its member\nwaiting for the control plane that is at work: node-2\n"

func TestCommandsPlanCheckAskAndRun(t *testing.T) {
	fails := func(w *Work) {
		run := w.Run
		w.Run = func(ctx context.Context, p *Progress) (Result, error) {
			r, _ := run(ctx, p)
			return r, errDisk
		}
		w.LogFile = func() string { return "/var/log/sealift/x.log" }
	}
	failsAfterwards := func(w *Work) {
		run := w.Run
		w.Run = func(ctx context.Context, p *Progress) (Result, error) {
			r, err := run(ctx, p)
			r.Failed = errDisk
			return r, err
		}
	}
	for _, row := range []struct {
		name        string
		in          string // typed input; "-" for no terminal
		flags       Flags
		adjust      func(*Work)
		did         string
		out, errOut string
		err         string
	}{
		{name: "a plan asks nobody", in: "-", flags: Flags{Plan: true}, did: "plan", out: "did plan\n"},
		{name: "a plan for programs", in: "-", flags: Flags{Plan: true, Yes: true, Format: "json"}, did: "plan", out: "{\n  \"did\": \"plan\"\n}\n"},
		{name: "--yes", in: "-", flags: Flags{Yes: true}, did: "check run", out: events + "did run\n"},
		{name: "--yes for programs", in: "-", flags: Flags{Yes: true, Format: "json"}, did: "check run", out: "{\n  \"did\": \"run\"\n}\n", errOut: events},
		{name: "a person agrees", in: "y\n", did: "check run", out: events + "did run\n", errOut: "Remove it? (y/N) "},
		{name: "a person does not", in: "\n", did: "check", errOut: "Remove it? (y/N) ", err: "not confirmed; nothing was changed"},
		{name: "nobody is there", in: "-", did: "check", err: "nobody can be asked here: give --yes to remove the node, or --plan to see what that would do"},
		{name: "nobody needs to be there", in: "-", adjust: func(w *Work) { w.Unasked = true }, did: "check run", out: events + "did run\n"},
		{name: "nothing to ask", in: "\n", adjust: func(w *Work) { w.Question = "" }, did: "check run", out: events + "did run\n"},
		{name: "refused", in: "-", flags: Flags{Yes: true}, adjust: func(w *Work) { w.Check = func(context.Context) error { return errAlive } },
			err: "it is alive\nnothing was changed"},
		{name: "a failure", in: "-", flags: Flags{Yes: true}, adjust: fails, did: "check run", out: events + "did run\n",
			err: "the disk is full\nlog: /var/log/sealift/x.log\nrun the same command again to go on"},
		{name: "a failure after the change", in: "-", flags: Flags{Yes: true}, adjust: failsAfterwards, did: "check run", out: events + "did run\n", err: "the disk is full"},
		{name: "a failure after the change, for programs", in: "-", flags: Flags{Yes: true, Format: "json"}, adjust: failsAfterwards, did: "check run",
			out: "{\n  \"did\": \"run\"\n}\n", errOut: events, err: "the disk is full"},
		{name: "a failure with an advice of its own", in: "-", flags: Flags{Yes: true}, did: "check run", out: events + "did run\n",
			adjust: func(w *Work) { fails(w); w.Next = func(context.Context, error) string { return "free the disk" } },
			err:    "the disk is full\nlog: /var/log/sealift/x.log\nfree the disk"},
		{name: "a failure that nothing follows", in: "-", flags: Flags{Yes: true}, did: "check run", out: events + "did run\n",
			adjust: func(w *Work) {
				fails(w)
				w.LogFile, w.Next = nil, func(context.Context, error) string { return "" }
			},
			err: "the disk is full"},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := io.Reader(strings.NewReader(""))
			if row.in != "-" {
				in = fixture.Terminal(t, row.in)
			}
			d := drive(in, row.flags, row.adjust)
			got := ""
			if d.err != nil {
				got = d.err.Error()
			}
			if got != row.err {
				t.Errorf("error %q, want %q", got, row.err)
			}
			if did := strings.Join(d.did, " "); did != row.did {
				t.Errorf("did %q, want %q", did, row.did)
			}
			if d.out.String() != row.out || d.errOut.String() != row.errOut {
				t.Errorf("printed %q and %q, want %q and %q", &d.out, &d.errOut, row.out, row.errOut)
			}
		})
	}
}

// TestInterruptionIsReportedAtOnce uses a step that does not end with the context.
func TestInterruptionIsReportedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	a := &app.App{In: strings.NewReader(""), Out: io.Discard, Err: w}
	err = Do(ctx, a, Flags{}, Work{Run: func(context.Context, *Progress) (Result, error) {
		cancel()
		said := make([]byte, 80)
		n, err := r.Read(said)
		if err == nil && !strings.HasPrefix(string(said[:n]), "interrupted: ") {
			t.Errorf("printed %q", said[:n])
		}
		return Result{}, err
	}})
	if err != nil {
		t.Error(err)
	}
}
