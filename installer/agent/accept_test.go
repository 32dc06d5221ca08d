package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// plain writes an intent as an earlier sealift does, and as everybody with write access to the annotation can.
func plain(t *testing.T, in intent.Intent) string {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAgentRefusesUnsignedWork writes annotations as an attacker with every right in the API could.
func TestAgentRefusesUnsignedWork(t *testing.T) {
	c := newCluster(t)
	defer c.agent()()
	c.number = 100
	accepted := ask(intent.Prepare, 1)
	used := c.sign(&accepted)
	c.annotate(used)
	c.report(func(r intent.Report) bool { return r.Answers(accepted) && r.State == intent.Done })
	c.number += 10
	strangers, err := identity.ReadAuthority(fixture.CA(t))
	if err != nil {
		t.Fatal(err)
	}
	otherSignature := c.sign(ptr(ask(intent.Prepare, 90)))
	for n, row := range []struct {
		name, says string
		text       func(in intent.Intent) string
	}{
		{"no signature", "no control plane of this cluster signed it", func(in intent.Intent) string { return plain(t, in) }},
		{"signed by another cluster", "no control plane of this cluster signed it", func(in intent.Intent) string { return c.signed(strangers, in) }},
		{"the signature of another intent", "is of another text", func(in intent.Intent) string {
			return strings.TrimSuffix(plain(t, in), "}") + otherSignature[strings.LastIndex(otherSignature, `,"signature":`):]
		}},
		{"for another node", `it is for node "host-2"`, func(in intent.Intent) string {
			in.Node = "host-2"
			return c.signed(c.ca, in)
		}},
		{"for a worker", "it is for a worker, but this node is a control plane", func(in intent.Intent) string {
			in.Role = intent.Worker
			return c.signed(c.ca, in)
		}},
		{"an operation of a worker", `a control plane does not carry out "undo"`, func(in intent.Intent) string {
			in.Operation, in.UpgradeID = intent.Undo, "0123456789abcdef"
			return c.signed(c.ca, in)
		}},
		{"used before", "it was used before", func(in intent.Intent) string {
			in.Number = accepted.Number
			return c.signed(c.ca, in)
		}},
		{"older than the newest", "it was used before", func(in intent.Intent) string {
			in.Number = accepted.Number - 1
			return c.signed(c.ca, in)
		}},
		{"without a number", "it has no number", func(in intent.Intent) string {
			in.Number = 0
			return c.signed(c.ca, in)
		}},
		{"ended", "it expired at", func(in intent.Intent) string {
			in.Until = time.Now().Add(-time.Minute).UTC()
			return c.signed(c.ca, in)
		}},
	} {
		in := ask(intent.Prepare, 100+n)
		c.sign(&in)
		c.annotate(row.text(in))
		r := c.report(func(r intent.Report) bool { return r.Attempt == in.Attempt })
		if r.State != intent.Failed || !strings.Contains(r.Error, row.says) || !strings.Contains(r.Error, "refuses") {
			t.Errorf("%s: %+v", row.name, r)
		}
	}
	c.annotate(used) // the same annotation again, after another one
	last := ask(intent.Prepare, 200)
	c.annotate(c.sign(&last))
	c.report(func(r intent.Report) bool { return r.Answers(last) && r.State == intent.Done })
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.worked) != 2 {
		t.Errorf("the agent worked for %+v", c.worked)
	}
}

// TestWorkerRefusesControlPlaneWork uses a host without the key of the CA.
func TestWorkerRefusesControlPlaneWork(t *testing.T) {
	c := newCluster(t)
	if err := os.Remove(filepath.Join(c.pki, "ca.key")); err != nil {
		t.Fatal(err)
	}
	defer c.agent()()
	for n, row := range []struct {
		role      intent.Role
		operation intent.Operation
		says      string // "" is carried out
	}{
		{intent.Worker, intent.Encrypt, `a worker does not carry out "encrypt"`},
		{intent.Worker, intent.PrepareUndo, `a worker does not carry out "arm"`},
		{intent.ControlPlane, intent.Encrypt, "it is for a control plane, but this node is a worker"},
		{intent.Worker, intent.Undo, ""},
	} {
		in := ask(row.operation, n+1)
		in.UpgradeID = "0123456789abcdef"
		c.sign(&in)
		in.Role = row.role
		c.annotate(c.signed(c.ca, in))
		r := c.report(func(r intent.Report) bool { return r.Answers(in) && r.State != intent.Working })
		if row.says == "" && r.State != intent.Done || row.says != "" && (r.State != intent.Failed || !strings.Contains(r.Error, row.says)) {
			t.Errorf("%s as %s: %+v", row.operation, row.role, r)
		}
	}
}

// TestNumbersSurviveRestart: a restarted agent refuses numbers that were used before.
func TestNumbersSurviveRestart(t *testing.T) {
	c := newCluster(t)
	stop := c.agent()
	first, second := ask(intent.Prepare, 1), ask(intent.Upgrade, 1)
	used := c.sign(&first)
	c.annotate(used)
	c.report(func(r intent.Report) bool { return r.Answers(first) && r.State == intent.Done })
	c.annotate(c.sign(&second))
	c.report(func(r intent.Report) bool { return r.Answers(second) && r.State == intent.Done })
	stop()
	c.annotate(used)
	defer c.agent()()
	r := c.report(func(r intent.Report) bool { return r.Operation == intent.Prepare })
	if r.State != intent.Failed || !strings.Contains(r.Error, "it was used before") {
		t.Errorf("%+v", r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.worked) != 2 {
		t.Errorf("the agent worked for %+v", c.worked)
	}
}

// TestRefusalNamesAcceptedNumber: an undo brings back the report of a request from before a clock was ahead.
func TestRefusalNamesAcceptedNumber(t *testing.T) {
	c := newCluster(t)
	defer c.agent()()
	now := time.Now()
	c.number = now.AddDate(1, 2, 0).UnixNano()
	ahead := ask(intent.Prepare, 1)
	used := c.sign(&ahead)
	c.annotate(used)
	c.report(func(r intent.Report) bool { return r.Answers(ahead) && r.State == intent.Done && r.Accepted == 0 })
	low, high := ask(intent.Prepare, 2), ask(intent.Prepare, 3)
	c.number = intent.Report{}.Next(now)
	c.annotate(c.sign(&low))
	refused := c.report(func(r intent.Report) bool { return r.Answers(low) && r.State == intent.Failed })
	c.number = refused.Next(now) - 1
	c.annotate(c.sign(&high))
	c.report(func(r intent.Report) bool { return r.Answers(high) && r.State == intent.Done })
	c.annotate(used)
	replayed := c.report(func(r intent.Report) bool { return r.Answers(ahead) && r.State == intent.Failed })
	if refused.Accepted != ahead.Number || replayed.Accepted != high.Number || !strings.Contains(replayed.Error, "it was used before") {
		t.Errorf("%+v, %+v", refused, replayed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.worked) != 2 {
		t.Errorf("the agent worked for %+v", c.worked)
	}
}

func ptr(in intent.Intent) *intent.Intent { return &in }
