package record_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/spec/record"
)

// sample is the record of a cluster with two nodes.
func sample() record.Record {
	digest := strings.Repeat("ab", 32)
	node := record.Node{Roles: []string{}, Kubelet: "1.35.4", Runtime: "containerd://2.2.1", OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-18-amd64", Architecture: "amd64"}
	first, second := node, node
	first.Name, first.Roles, second.Name = "host-1", []string{"control-plane"}, "host-2"
	return record.Record{
		Format: record.Format, Time: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), Sealift: "v1.0.0", Kubernetes: "1.35.4", Bundle: digest,
		Packages:  []record.Package{{Name: "kubernetes", Version: "1.34.4", Index: digest}, {Name: "kubernetes", Version: "1.35.4", Index: digest}},
		Installer: "apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.35.4}\n",
		AddOns:    []record.AddOn{{Name: "kubernetes", Version: "1.35.4"}},
		Nodes:     []record.Node{first, second},
	}
}

func text(t testing.TB) string {
	t.Helper()
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRecordSurvivesRoundTrip(t *testing.T) {
	lean := sample()
	lean.Packages[0].Lean = map[string]string{lean.Bundle: strings.Repeat("cd", 32)}
	for _, want := range []record.Record{sample(), lean} {
		data, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := record.Parse(data); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n%+v\n%+v", err, got, want)
		}
	}
}

func TestInvalidRecordIsRefused(t *testing.T) {
	for _, row := range []struct{ from, to, want string }{
		{`"sealift.dev/record/v1"`, `"sealift.dev/record/v2"`, "use the one that made the record"},
		{`"format"`, `"Format"`, `unknown field "Format"`},
		{`"sealift": "v1.0.0",`, `"sealift": "v1.0.0", "sealift": "v2",`, `duplicate field "sealift"`},
		{`"sealift": "v1.0.0",`, `"sealift": "v1.0.0", "password": "x",`, `unknown field "password"`},
		{`"kubernetes": "1.35.4"`, `"kubernetes": "1.35"`, "not a version such as"},
		{`"bundle": "ab`, `"bundle": "AB`, "not a sha256"},
		{`"name": "kubernetes"`, `"name": "../kubernetes"`, "is not a package"},
		{`"version": "1.34.4"`, `"version": "1.34.4/../x"`, "is not a package"},
		{`"index": "`, `"lean": {"../x": "y"}, "index": "`, "neither may be anything but a sha256"},
		{`"version": "1.34.4"`, `"version": "1.35.4"`, "package kubernetes 1.35.4 is listed twice"},
		{`"name": "host-2"`, `"name": "host-1"`, "node host-1 is listed twice"},
		{`kind: Installer\n`, `kind: Pod\n`, "kind"},
		{`"kubelet": "1.35.4"`, `"kubelet": "v1.35.4"`, "is not a node"},
		{"}\n", "}\n{}", "not a record"},
		{"{", "", "sealift status --record"},
	} {
		whole := text(t)
		changed := strings.Replace(whole, row.from, row.to, 1)
		if row.from == "}\n" {
			changed = whole + "{}"
		}
		if changed == whole {
			t.Fatalf("%s is not in the record", row.from)
		}
		if _, err := record.Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v", row.to, err)
		}
	}
}

// FuzzParse checks that every parsed record can be written, and round-trips.
func FuzzParse(f *testing.F) {
	f.Add([]byte(text(f)))
	f.Add([]byte(`{"format":"sealift.dev/record/v1","nodes":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := record.Parse(data)
		if err != nil {
			return
		}
		written, err := r.Encode()
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		again, err := record.Parse(written)
		if err != nil || !again.Time.Equal(r.Time) {
			t.Fatalf("%s: %v", written, err)
		}
		again.Time = r.Time
		second, err := again.Encode()
		if err != nil || string(second) != string(written) {
			t.Fatalf("%s\n%s: %v", written, second, err)
		}
	})
}
