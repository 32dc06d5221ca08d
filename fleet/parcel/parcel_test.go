package parcel_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/testing/fixture"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestParcelMustBeNextOfItsCluster(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    parcel.Parcel
		last parcel.Last
		want seal.Reason
	}{
		{"the first", parcel.Parcel{Cluster: "ship", Sequence: 1, Time: noon}, parcel.Last{}, ""},
		{"the next", parcel.Parcel{Cluster: "ship", Sequence: 9, Time: noon}, parcel.Last{Sequence: 4, Done: true}, ""},
		{"one that was begun", parcel.Parcel{Cluster: "ship", Sequence: 4, Time: noon.Add(-9000 * time.Hour)}, parcel.Last{Sequence: 4, Digest: "d"}, ""},
		{"of another cluster", parcel.Parcel{Cluster: "oslo", Sequence: 1, Time: noon}, parcel.Last{}, seal.OtherCluster},
		{"again", parcel.Parcel{Cluster: "ship", Sequence: 4, Time: noon}, parcel.Last{Sequence: 4, Digest: "d", Done: true}, seal.Older},
		{"older", parcel.Parcel{Cluster: "ship", Sequence: 3, Time: noon}, parcel.Last{Sequence: 4}, seal.Older},
		{"another one with the same number", parcel.Parcel{Cluster: "ship", Sequence: 4, Time: noon}, parcel.Last{Sequence: 4, Digest: "e"}, seal.HubWentBack},
		{"too old", parcel.Parcel{Cluster: "ship", Sequence: 1, Time: noon.Add(-25 * time.Hour)}, parcel.Last{}, seal.TooOld},
		{"of the future", parcel.Parcel{Cluster: "ship", Sequence: 1, Time: noon.Add(2 * time.Hour)}, parcel.Last{}, seal.ClocksDiffer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.p.Check("ship", "d", tt.last, 24*time.Hour, noon)
			var r *seal.Refusal
			if errors.As(err, &r); err == nil && tt.want != "" || err != nil && (r == nil || r.Reason != tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// write writes a bundle with one file.
func write(t *testing.T, path, text string, key *signature.Key) string {
	t.Helper()
	members, err := bundle.Render(t.Context(), []bundle.File{bundle.BytesFile(path, 0o644, []byte(text))}, bundle.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := bundle.WriteBundle(context.Background(), &out, bundle.Bundle{Members: members, Key: key}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "parcel")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestParcelsOfOtherHubsAreRefused(t *testing.T) {
	key, public := fixture.SigningKey(t)
	other, _ := fixture.SigningKey(t)
	good := `{"format":"` + parcel.Format + `","cluster":"ship","sequence":1,"time":"2026-11-22T12:00:00Z","works":[{"name":"w","seal":"s","spec":{"workload":{"manifests":[{"n":9007199254740993}]}}}]}`
	for name, file := range map[string]string{
		"no signature":   write(t, parcel.Name, good, nil),
		"another key":    write(t, parcel.Name, good, other),
		"no parcel":      write(t, "elsewhere", good, key),
		"not JSON":       write(t, parcel.Name, "{", key),
		"another format": write(t, parcel.Name, strings.Replace(good, "/v1", "/v2", 1), key),
		"unknown fields": write(t, parcel.Name, strings.Replace(good, `"name"`, `"mane"`, 1), key),
		"more than one":  write(t, parcel.Name, good+good, key),
	} {
		if a, _, err := parcel.ReadArchive(file, []signature.PublicKey{public}); err == nil {
			t.Errorf("%s: it is read", name)
			_ = a.Close()
		}
	}
	a, p, err := parcel.ReadArchive(write(t, parcel.Name, good, key), []signature.PublicKey{public})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil || p.Cluster != "ship" || len(p.Works) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	a1, err1 := seal.Digest(p.Works[0].Spec)
	p.Works[0].Spec.Workload.Manifests[0]["n"] = int64(9007199254740992)
	if b1, err := seal.Digest(p.Works[0].Spec); err1 != nil || err != nil || a1 == b1 {
		t.Errorf("a long number lost its end: %v %v", err1, err)
	}
}

func FuzzReadReport(f *testing.F) {
	key, public := fixture.SigningKey(f)
	good, err := parcel.Report{Cluster: "ship<", Number: 3, Time: noon, Works: []parcel.WorkReport{{Name: "w"}}, Content: "{}"}.Write(key)
	if err != nil {
		f.Fatal(err)
	}
	if r, verify, err := parcel.ReadReport(good); err != nil || r.Number != 3 || verify(public) != nil {
		f.Fatal("a good report is not read", err)
	}
	for _, seed := range []string{string(good), "", "{}", `{"report":{}}`, `{"report":null,"signature":""}`, strings.Replace(string(good), "3", "4", 1)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, verify, err := parcel.ReadReport(file)
		if err != nil {
			return
		}
		if verify(public) == nil && (r.Cluster != "ship<" || r.Number != 3 || !r.Time.Equal(noon) || len(r.Works) != 1) {
			t.Errorf("the key signed %+v", r)
		}
	})
}

// TestLargeReportIsRefused uses a report of a tebibyte, most of it a hole.
func TestLargeReportIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "oslo.report")
	if err := os.WriteFile(name, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := parcel.LoadReport(name); err != nil || string(text) != "{}" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Truncate(name, 1<<40); err != nil {
		t.Fatal(err)
	}
	if text, err := parcel.LoadReport(name); err == nil || !strings.Contains(err.Error(), "more than 134217728") || text != nil {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := parcel.LoadReport(filepath.Dir(name)); err == nil {
		t.Error("a folder was read as a report")
	}
}
