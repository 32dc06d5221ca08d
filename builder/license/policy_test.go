package license_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sealift/sealift/builder/license"
)

func TestExceptionsPermitUntilTheirLastDay(t *testing.T) {
	until := time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)
	p := license.Policy{Forbidden: []string{"GPL-3.0-only", "AGPL-3.0-only"}, Exceptions: []license.Exception{
		{License: "GPL-3.0-only", Image: "docker.io/library", Package: "bash", Reason: "legal", Until: until},
		{License: "AGPL-3.0-only", Package: "ours", Reason: "ours", Until: until},
	}}
	last, over := until.Add(23*time.Hour), until.Add(24*time.Hour)
	for name, row := range map[string]struct {
		expression, repository, software string
		now                              time.Time
		want                             []string
		over                             int
	}{
		"an excepted package":           {"GPL-3.0-only", "docker.io/library/debian", "bash", last, nil, 0},
		"on the day after the last":     {"GPL-3.0-only", "docker.io/library/debian", "bash", over, []string{"GPL-3.0-only"}, 1},
		"another package":               {"GPL-3.0-only", "docker.io/library/debian", "tar", last, []string{"GPL-3.0-only"}, 0},
		"another image":                 {"GPL-3.0-only", "docker.io/library2/debian", "bash", last, []string{"GPL-3.0-only"}, 0},
		"outside of images":             {"GPL-3.0-only", "", "bash", last, []string{"GPL-3.0-only"}, 0},
		"an exception for all places":   {"AGPL-3.0-only", "", "ours", last, nil, 0},
		"another license of it":         {"AGPL-3.0-only AND GPL-3.0-only", "", "ours", last, []string{"GPL-3.0-only"}, 0},
		"both of a package, one is off": {"AGPL-3.0-only AND GPL-3.0-only", "quay.io/a", "ours", over, []string{"AGPL-3.0-only", "GPL-3.0-only"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := p.Judge(row.expression, row.repository, row.software, row.now)
			if !slices.Equal(v.Forbidden, row.want) || len(v.Over) != row.over {
				t.Errorf("got %+v", v)
			}
		})
	}
	if n := len(p.Current(last).Exceptions); n != 2 {
		t.Errorf("%d exceptions hold on the last day", n)
	}
	if n := len(p.Current(over).Exceptions); n != 0 {
		t.Errorf("%d exceptions hold on the day after", n)
	}
	digest := func(p license.Policy) string {
		d, err := p.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if digest(p.Current(last)) == digest(p.Current(over)) || digest(p.Current(over)) == "" || digest(license.Policy{}) != "" {
		t.Error("the digest does not stand for what is forbidden on a day")
	}
}
