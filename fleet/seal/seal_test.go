package seal_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/testing/fixture"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func spec(t *testing.T, text string) ocm.AgentSpec {
	t.Helper()
	var s ocm.AgentSpec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDigestSurvivesAPIServer has specs as a hub writes them and as an API server returns them.
func TestDigestSurvivesAPIServer(t *testing.T) {
	for name, pair := range map[string][2]string{
		"defaults": {
			`{"deleteOption":{},"manifestConfigs":[{"resourceIdentifier":{"resource":"r","name":"n"},"updateStrategy":{"serverSideApply":{"ignoreFields":[{"condition":""}]}}}]}`,
			`{"deleteOption":{"propagationPolicy":"Foreground"},"manifestConfigs":[{"feedbackScrapeType":"Poll","resourceIdentifier":{"resource":"r","name":"n"},
			  "updateStrategy":{"type":"Update","serverSideApply":{"fieldManager":"work-agent","ignoreFields":[{"condition":"OnSpokePresent"}]}}}]}`,
		},
		"null and order": {
			`{"workload":{"manifests":[{"kind":"K","metadata":{"name":"n","creationTimestamp":null},"status":null}]}}`,
			`{"workload":{"manifests":[{"metadata":{"name":"n"},"kind":"K"}]}}`,
		},
		"metadata that a server drops": {
			`{"workload":{"manifests":[{"kind":"K","metadata":{"name":"n","color":"red"}}]}}`,
			`{"workload":{"manifests":[{"kind":"K","metadata":{"name":"n"}}]}}`,
		},
		"spelling of numbers": {`{"workload":{"manifests":[{"a":1.0,"b":1e2}]}}`, `{"workload":{"manifests":[{"a":1,"b":100}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			x, errX := seal.Digest(spec(t, pair[0]))
			y, errY := seal.Digest(spec(t, pair[1]))
			if err := errors.Join(errX, errY); err != nil || x != y {
				t.Errorf("%s and %s, %v", x, y, err)
			}
		})
	}
	x, _ := seal.Digest(spec(t, `{"workload":{"manifests":[{"a":1}]}}`))
	y, _ := seal.Digest(spec(t, `{"workload":{"manifests":[{"a":2}]}}`))
	if x == y {
		t.Error("two contents have one digest")
	}
}

func TestOriginRefusesSealsOfOtherWorks(t *testing.T) {
	key, public := fixture.SigningKey(t)
	other, _ := fixture.SigningKey(t)
	content := spec(t, `{"workload":{"manifests":[{"kind":"ConfigMap","data":{"a":"b"}}]}}`)
	digest, err := seal.Digest(content)
	if err != nil {
		t.Fatal(err)
	}
	good := seal.Statement{Cluster: "oslo", Work: "w", Sequence: 7, Time: noon, Digest: digest}
	sign := func(s seal.Statement, k *signature.Key) string {
		text, err := s.Sign(k)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	elsewhere, renamed := good, good
	elsewhere.Cluster, renamed.Work = "rome", "v"
	forged, err := seal.Read(sign(good, key))
	if err != nil {
		t.Fatal(err)
	}
	forged.Sequence = 8
	text, _ := json.Marshal(forged)
	policy := seal.Policy{Cluster: "oslo", Keys: []signature.PublicKey{public}}
	changed := spec(t, `{"workload":{"manifests":[{"kind":"ConfigMap","data":{"a":"c"}}]}}`)
	for _, tt := range []struct {
		name, annotation string
		spec             ocm.AgentSpec
		want             seal.Reason
	}{
		{"good", sign(good, key), content, ""},
		{"none", "", content, seal.Unsigned},
		{"not JSON", "{", content, seal.Changed},
		{"another key", sign(good, other), content, seal.UntrustedKey},
		{"another number under an old signature", string(text), content, seal.UntrustedKey},
		{"another cluster", sign(elsewhere, key), content, seal.OtherCluster},
		{"another work", sign(renamed, key), content, seal.Changed},
		{"another content", sign(good, key), changed, seal.Changed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, by, signed, err := policy.Origin("w", tt.annotation, tt.spec)
			if got := reason(err); got != tt.want {
				t.Fatalf("%q, want %q: %v", got, tt.want, err)
			}
			if err == nil && (s.Sequence != 7 || by.Fingerprint() != public.Fingerprint() || len(signed.Workload.Manifests) != 1) {
				t.Errorf("%+v %+v", s, signed)
			}
		})
	}
}

func TestSignedDeletionMustMatch(t *testing.T) {
	for _, signed := range []bool{true, false} {
		for _, deleted := range []bool{true, false} {
			err := seal.Seal{Statement: seal.Statement{Deleted: signed}}.Life(deleted)
			if (err == nil) != (signed == deleted) || err != nil && reason(err) != seal.NotDeleted {
				t.Errorf("signed %v, deleted %v: %v", signed, deleted, err)
			}
		}
	}
}

func reason(err error) seal.Reason {
	if r, ok := errors.AsType[*seal.Refusal](err); ok {
		return r.Reason
	}
	return ""
}

func TestOrder(t *testing.T) {
	had := func(sequence int64, ago time.Duration, digest string) seal.Mark {
		return seal.Mark{Sequence: sequence, Time: noon.Add(-ago), Digest: digest}
	}
	gone := had(5, time.Hour, "old")
	gone.Gone = true
	for _, tt := range []struct {
		name   string
		memory seal.Memory
		seq    int64
		ago    time.Duration
		digest string
		// deleted means that the seal is that of a deletion
		deleted bool
		want    seal.Reason
		fresh   bool
	}{
		{name: "the first", seq: 1, digest: "x", fresh: true},
		{name: "the same again, after a year", memory: seal.Memory{"w": had(1, 9000*time.Hour, "x")}, seq: 1, ago: 9000 * time.Hour, digest: "x"},
		{name: "the next", memory: seal.Memory{"w": had(1, time.Hour, "x")}, seq: 2, digest: "y", fresh: true},
		{name: "one that was overtaken by another work", memory: seal.Memory{"v": had(9, 0, "x")}, seq: 8, ago: time.Minute, digest: "y", fresh: true},
		{name: "a replay", memory: seal.Memory{"w": had(5, time.Hour, "x")}, seq: 4, ago: 2 * time.Hour, digest: "y", want: seal.Older},
		{name: "a work that was deleted", memory: seal.Memory{"w": gone}, seq: 5, ago: time.Hour, digest: "old", want: seal.Older},
		{name: "a removal that was begun", memory: seal.Memory{"w": gone}, seq: 5, ago: time.Hour, digest: "old", deleted: true},
		{name: "a deletion", memory: seal.Memory{"w": had(5, time.Hour, "old")}, seq: 6, digest: "old", deleted: true, fresh: true},
		{name: "the deletion of a work that was made again", memory: seal.Memory{"w": had(7, time.Hour, "old")}, seq: 6, ago: 2 * time.Hour, digest: "old", deleted: true, want: seal.Older},
		{name: "a deletion with the number of the content", memory: seal.Memory{"w": had(5, time.Hour, "old")}, seq: 5, ago: time.Hour, digest: "old", deleted: true, want: seal.Older},
		{name: "a deleted work that the hub made again", memory: seal.Memory{"w": gone}, seq: 6, digest: "old", fresh: true},
		{name: "a lower number, signed later", memory: seal.Memory{"v": had(9, time.Hour, "x")}, seq: 6, digest: "y", want: seal.HubWentBack},
		{name: "the same number, signed later", memory: seal.Memory{"w": had(9, time.Hour, "x")}, seq: 9, digest: "y", want: seal.HubWentBack},
		{name: "the same number with another content", memory: seal.Memory{"w": had(9, time.Hour, "x")}, seq: 9, ago: time.Hour, digest: "y", want: seal.HubWentBack},
		{name: "an old one", seq: 1, ago: 31 * 24 * time.Hour, digest: "x", want: seal.TooOld},
		{name: "one of the future", seq: 1, ago: -2 * time.Hour, digest: "x", want: seal.ClocksDiffer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := seal.Seal{Statement: seal.Statement{Cluster: "oslo", Work: "w", Sequence: tt.seq, Time: noon.Add(-tt.ago), Digest: tt.digest, Deleted: tt.deleted}}
			_, fresh, err := seal.Policy{Cluster: "oslo", MaxAge: 30 * 24 * time.Hour}.Order(s, tt.memory, noon)
			if reason(err) != tt.want || fresh != tt.fresh {
				t.Errorf("%q fresh=%v, want %q %v: %v", reason(err), fresh, tt.want, tt.fresh, err)
			}
		})
	}
}

// TestForget drops a deleted work. A seal that was made before its removal stays refused.
func TestForget(t *testing.T) {
	policy := seal.Policy{Cluster: "oslo", MaxAge: 10 * time.Hour}
	mark := func(sequence int64, age time.Duration, gone bool) seal.Mark {
		return seal.Mark{Sequence: sequence, Time: noon.Add(-age), Digest: "x", Gone: gone}
	}
	all := func() seal.Memory {
		return seal.Memory{
			"old": mark(2, 12*time.Hour, true), "there": mark(1, 12*time.Hour, false), "new": mark(3, 10*time.Hour+30*time.Minute, true), "last": mark(9, 12*time.Hour, true),
		}
	}
	m := all()
	policy.Forget(m, noon)
	if _, found := m["old"]; found || len(m) != 3 {
		t.Errorf("left are %v", m)
	}
	replay := seal.Seal{Statement: seal.Statement{Cluster: "oslo", Work: "old", Sequence: 1, Time: noon.Add(-13 * time.Hour), Digest: "x"}}
	if _, _, err := policy.Order(replay, m, noon.Add(-seal.ClockSkew)); reason(err) != seal.TooOld {
		t.Errorf("a replay of a forgotten work: %v", err)
	}
	m = all()
	if (seal.Policy{Cluster: "oslo"}).Forget(m, noon); len(m) != 4 {
		t.Errorf("without a limit, left are %v", m)
	}
}

// TestRefusalKeepsItsMessage shows that an agent writes a refusal once, and not again on every check of the work.
func TestRefusalKeepsItsMessage(t *testing.T) {
	policy := seal.Policy{Cluster: "oslo", MaxAge: time.Hour}
	for want, ago := range map[seal.Reason]time.Duration{seal.ClocksDiffer: -3 * time.Hour, seal.TooOld: 3 * time.Hour} {
		s := seal.Seal{Statement: seal.Statement{Cluster: "oslo", Work: "w", Sequence: 1, Time: noon.Add(-ago)}}
		_, _, first := policy.Order(s, nil, noon)
		_, _, later := policy.Order(s, nil, noon.Add(time.Minute))
		if reason(first) != want || reason(later) != want || first.Error() != later.Error() {
			t.Errorf("%v, and a minute later %v", first, later)
		}
	}
}

func FuzzRead(f *testing.F) {
	key, public := fixture.SigningKey(f)
	text, err := seal.Statement{Cluster: "oslo", Work: "w", Sequence: 1, Time: noon, Digest: "d"}.Sign(key)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{text, "", "{}", `{"sequence":-1}`, `{"time":"x"}`, text + "{}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		s, err := seal.Read(input)
		if err != nil {
			return
		}
		if _, ours := s.SignedBy(public); ours && (s.Cluster != "oslo" || s.Work != "w" || s.Sequence != 1 || s.Digest != "d") {
			t.Errorf("the key signed %+v", s)
		}
	})
}
