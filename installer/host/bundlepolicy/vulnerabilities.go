package bundlepolicy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/strictyaml"
)

// clockSkew is how far the clock of who made a verdict may be ahead of this host's.
const clockSkew = time.Hour

const day = 24 * time.Hour

// vulnerabilities is the policy of a file:
//
//	vulnerabilities:
//	  keys: [security.pub]   # of those whose verdict counts: files beside this one, or PEM
//	  failOn: high           # stricter than the verdict's own policy; may be left out
//	  maxAgeDays: 30         # of the database that the verdict is by; may be left out
type vulnerabilities struct {
	file   string
	keys   []signature.PublicKey
	failOn verdict.Level // "" for the verdict's own
	maxAge time.Duration // 0 for any
}

// CheckVulnerabilities refuses an archive without the verdict that the policy in a file demands at a time.
func CheckVulnerabilities(a *bundle.Archive, file string, now time.Time) error {
	p, err := loadVulnerabilities(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the policy of vulnerabilities: %w", err)
	}
	signed, err := a.Verdict()
	if errors.Is(err, fs.ErrNotExist) {
		return refuse("%s demands a verdict about vulnerabilities, and the bundle came without one (%v); make one with 'sealift verdict', and carry it beside the bundle, or name its file with --verdict", file, err)
	}
	if err != nil {
		return err
	}
	v, err := signed.Verify(a.Digest, p.keys...)
	if err != nil {
		return refuse("%s demands a verdict about vulnerabilities: %v; make one of this bundle with 'sealift verdict', and with the private key of one of the keys that the file names", file, err)
	}
	return p.judge(v, now)
}

// judge refuses a verdict that does not suffice.
func (p vulnerabilities) judge(v *verdict.Verdict, now time.Time) error {
	of := fmt.Sprintf("the verdict of %s, by a database of %s,", v.Made.UTC().Format(time.DateOnly), v.Database.Date.UTC().Format(time.DateOnly))
	age := now.Sub(v.Database.Date)
	switch failing := v.Counts.Failing(p.failOn); {
	case !v.Passed:
		return refuse("%s demands a verdict without vulnerabilities %s, and %s found %d; update what has them, or except them with 'sealift verdict --vex'%s",
			p.file, v.Policy.FailOn, of, v.Counts.Failing(v.Policy.FailOn), listed(findings(v)))
	case p.failOn != "" && failing > 0:
		return refuse("%s allows no vulnerabilities %s, and %s counts %d; update what has them, or except them with 'sealift verdict --vex'", p.file, p.failOn, of, failing)
	case p.maxAge > 0 && v.Made.After(now.Add(clockSkew)):
		return refuse("the clock of this host is wrong: it says %s, and the verdict was made at %s; set it, for instance with timedatectl set-time",
			now.UTC().Format(time.RFC3339), v.Made.UTC().Format(time.RFC3339))
	case p.maxAge > 0 && age > p.maxAge:
		return refuse("%s allows a database of vulnerabilities that is %d days old, and %s is too old: by the clock of this host, the database is %d days old; make a new one with 'sealift vulndb pull', and a verdict by it with 'sealift verdict'",
			p.file, p.maxAge/day, of, age/day)
	}
	return nil
}

// findings describes the findings that failed.
func findings(v *verdict.Verdict) (lines []string) {
	for _, f := range v.Failed {
		line := fmt.Sprintf("%s %s %s %s", f.Severity, f.ID, f.Name, f.Version)
		if f.Fixed != "" {
			line += ", fixed in " + f.Fixed
		}
		lines = append(lines, line)
	}
	return lines
}

func loadVulnerabilities(file string) (p vulnerabilities, err error) {
	text, err := regularfile.ReadAtMost(file, strictyaml.MaxFile)
	if err != nil {
		return p, err
	}
	p.file = file
	r := &strictyaml.Reader{Name: file}
	root := r.Mapping(text)
	if root == nil {
		return p, r.Err()
	}
	n := r.Fields(root, "a policy of vulnerabilities", "vulnerabilities")["vulnerabilities"]
	if n == nil {
		return p, fmt.Errorf("%s has no vulnerabilities", file)
	}
	if !r.IsMapping(n, "vulnerabilities") {
		return p, r.Err()
	}
	fields := r.Fields(n, "vulnerabilities", "keys", "failOn", "maxAgeDays")
	for _, item := range r.Items(fields["keys"], "keys") {
		text, _, _ := r.Content(item, "a key", "-----BEGIN")
		key, err := signature.ParsePublicKey(text)
		if err != nil && text != nil {
			r.Errorf(r.Pos(item), "", "keys: %v", err)
		}
		p.keys = append(p.keys, key)
	}
	if len(p.keys) == 0 {
		r.Errorf(r.Pos(n), "", "name the keys of those whose verdict counts: keys: [security.pub]")
	}
	if n := fields["failOn"]; n != nil {
		if p.failOn = verdict.Level(r.Text(n, "failOn")); !slices.Contains(verdict.Levels(), string(p.failOn)) {
			r.Errorf(r.Pos(n), "", "failOn must be one of %s", strings.Join(verdict.Levels(), ", "))
		}
	}
	if n := fields["maxAgeDays"]; n != nil {
		days, err := strconv.ParseUint(r.Text(n, "maxAgeDays"), 10, 16)
		if err != nil || days == 0 {
			r.Errorf(r.Pos(n), "", "maxAgeDays must be a number of days, from 1 to 65535")
		}
		p.maxAge = time.Duration(days) * day
	}
	return p, r.Err()
}
