package bundlepolicy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

// TestBundlesWithoutVerdictAreRefused has what can be wrong with a verdict, and with the clock of the host.
func TestBundlesWithoutVerdictAreRefused(t *testing.T) {
	made := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	file := filepath.Join(dir, "app.tar.gz")
	imagepackage.Write(t, file, "example.org/app:1")
	a, err := bundle.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	key, other := newKey(t), newKey(t)
	write(t, filepath.Join(dir, "security.pub"), string(public(t, key)))
	good := verdict.Verdict{Index: "sha256:" + a.Digest, Made: made, Database: verdict.Database{Date: made.AddDate(0, 0, -10)},
		Policy: verdict.Policy{FailOn: "high"}, Counts: verdict.Counts{Medium: 2, Excepted: 1}, Passed: true}
	failed := good
	failed.Passed, failed.Counts.High = false, 1
	failed.Failed = []verdict.Finding{{ID: "GO-2026-1", Severity: "high", Name: "golang.org/x/net", Version: "v0.20.0", Fixed: "0.23.0"}}
	another := good
	another.Index = "sha256:" + strings.Repeat("0", 64)
	const aged, strict = "vulnerabilities: {keys: [security.pub], maxAgeDays: 30}\n", "vulnerabilities: {keys: [security.pub], failOn: medium}\n"
	policy := filepath.Join(dir, "vulnerabilities.yaml")
	for name, row := range map[string]struct {
		policy  string
		verdict *verdict.Verdict
		key     *signature.Key
		now     time.Time
		want    string // "" if the bundle is taken
		broken  bool   // the policy cannot be read
	}{
		"no verdict": {policy: aged, want: policy + " demands a verdict about vulnerabilities, and the bundle came without one (open " + filepath.Join(dir, "app.verdict.json")},
		"passed":     {policy: aged, verdict: &good, key: key, now: made},
		"failed": {policy: aged, verdict: &failed, key: key, now: made,
			want: "without vulnerabilities of at least high or of unknown severity, and the verdict of 2026-11-28, by a database of 2026-11-18, found 1; update what has them, or except them with 'sealift verdict --vex'\nhigh GO-2026-1 golang.org/x/net v0.20.0, fixed in 0.23.0"},
		"of another bundle":                        {policy: aged, verdict: &another, key: key, now: made, want: "the verdict is about the bundle with the index " + another.Index + ", not about " + good.Index},
		"signed by another key":                    {policy: aged, verdict: &good, key: other, now: made, want: "another key signed the verdict, or it was changed; make one of this bundle"},
		"unsigned":                                 {policy: aged, verdict: &good, now: made, want: "the verdict has no signature: the file with its name and .sig is missing; make one of this bundle"},
		"twenty days later":                        {policy: aged, verdict: &good, key: key, now: made.AddDate(0, 0, 20)},
		"of an old database":                       {policy: aged, verdict: &good, key: key, now: made.AddDate(0, 0, 21), want: "by the clock of this host, the database is 31 days old; make a new one with 'sealift vulndb pull'"},
		"of an old database, of any age":           {policy: "vulnerabilities: {keys: [security.pub]}\n", verdict: &good, key: key, now: made.AddDate(9, 0, 0)},
		"on a clock that is behind":                {policy: aged, verdict: &good, key: key, now: made.AddDate(-50, 0, 0), want: "the clock of this host is wrong: it says 1976-11-28T12:00:00Z, and the verdict was made at 2026-11-28T12:00:00Z; set it"},
		"on a clock that is a little behind":       {policy: aged, verdict: &good, key: key, now: made.Add(-time.Hour)},
		"where the host allows less":               {policy: strict, verdict: &good, key: key, now: made, want: policy + " allows no vulnerabilities of at least medium or of unknown severity, and the verdict of 2026-11-28, by a database of 2026-11-18, counts 2"},
		"where the host allows more, but failed":   {policy: "vulnerabilities: {keys: [security.pub], failOn: critical}\n", verdict: &failed, key: key, now: made, want: "found 1"},
		"a key in the policy":                      {policy: "vulnerabilities:\n  keys:\n  - |\n    " + strings.ReplaceAll(string(public(t, key)), "\n", "\n    ") + "\n", verdict: &good, key: key, now: made},
		"no policy, no verdict":                    {},
		"a policy without a key":                   {policy: "vulnerabilities: {}\n", want: "name the keys", broken: true},
		"a policy with a key that cannot be read":  {policy: "vulnerabilities: {keys: [absent.pub]}\n", want: "absent.pub", broken: true},
		"a policy with a key that is not one":      {policy: "vulnerabilities: {keys: [vulnerabilities.yaml]}\n", want: "not a public key in PEM", broken: true},
		"a policy with another severity":           {policy: "vulnerabilities: {keys: [security.pub], failOn: bad}\n", want: "failOn must be one of any, low, medium, high, critical", broken: true},
		"a policy with another age":                {policy: "vulnerabilities: {keys: [security.pub], maxAgeDays: 30d}\n", want: "maxAgeDays must be a number of days", broken: true},
		"a policy with nothing of vulnerabilities": {policy: "{}\n", want: "has no vulnerabilities", broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, old := range []string{policy, bundle.VerdictFile(file), bundle.VerdictFile(file) + ".sig"} {
				if err := os.RemoveAll(old); err != nil {
					t.Fatal(err)
				}
			}
			if row.policy != "" {
				write(t, policy, row.policy)
			}
			if row.verdict != nil {
				signer := row.key
				if signer == nil {
					signer = key
				}
				signed, err := row.verdict.Sign(signer)
				if err != nil {
					t.Fatal(err)
				}
				if err := signed.Write(bundle.VerdictFile(file)); err != nil {
					t.Fatal(err)
				}
				if row.key == nil {
					if err := os.Remove(bundle.VerdictFile(file) + ".sig"); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := bundlepolicy.CheckVulnerabilities(a, policy, row.now)
			if (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Fatalf("got %v, want %q", err, row.want)
			}
			if _, refused := errors.AsType[*bundlepolicy.RefusedError](err); refused != (row.want != "" && !row.broken) {
				t.Errorf("refused: %v: %v", refused, err)
			}
		})
	}
}

// TestVerdictIsKeptForOthers writes the verdict beside an index, and removes an earlier one.
func TestVerdictIsKeptForOthers(t *testing.T) {
	file, folder := filepath.Join(t.TempDir(), "app.tar.gz"), t.TempDir()
	imagepackage.Write(t, file, "example.org/app:1")
	a, err := bundle.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	signed, err := verdict.Verdict{Index: "sha256:" + a.Digest}.Sign(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(signed.Write(bundle.VerdictFile(file)), bundlepolicy.KeepVerdict(a, folder)); err != nil {
		t.Fatal(err)
	}
	kept, err := verdict.Load(filepath.Join(folder, verdict.Name))
	if err != nil || string(kept.Document) != string(signed.Document) || string(kept.Signature) != string(signed.Signature) {
		t.Errorf("kept %s, %s, %v", kept.Document, kept.Signature, err)
	}
	if err := errors.Join(os.Remove(bundle.VerdictFile(file)), bundlepolicy.KeepVerdict(a, folder)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func newKey(t *testing.T) *signature.Key {
	t.Helper()
	key, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func public(t *testing.T, key *signature.Key) []byte {
	t.Helper()
	p, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	return p.Marshal()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
