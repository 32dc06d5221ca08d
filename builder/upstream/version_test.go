package upstream

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/catalog/origin"
)

func TestVersionsAreOrdered(t *testing.T) {
	for order, versions := range map[origin.Order][]string{
		origin.SemVer: {"1.36.9", "1.37.0-alpha.2", "1.37.0-alpha.10", "1.37.0-rc.1", "v1.37.0", "1.37.0+up1", "1.37.0+up2", "1.37.10"},
		origin.KURL:   {"v1.6.2-flannel1", "v1.9.1-flannel1", "v1.9.1-flannel2", "v1.10.0-flannel1"},
		origin.Debian: {"1.0~rc93-1", "1.0-1", "1.0-1+b1", "1.0.1-1", "1.10-1", "1:0.9-1"},
	} {
		for i := range versions {
			for j := range versions {
				got := compare(order, versions[i], versions[j])
				if i == j && got != 0 || i < j && got >= 0 || i > j && got <= 0 {
					t.Errorf("%s: %s and %s compare as %d", order, versions[i], versions[j], got)
				}
			}
		}
	}
}

func TestTagsAreJudged(t *testing.T) {
	for order, tags := range map[origin.Order]map[string]string{
		origin.SemVer: {"1.2.3": "yes", "v1.2.3": "yes", "1.2.3-rc.1": "pre", "1.2.3-0": "pre", "1.2": "no", "latest": "no", "": "no", "vv1.2.3": "no", "01.2.3": "no", "1.2.3-": "no",
			"v0.0.0-20250801101112-0123456789ab": "yes", "v1.2.4-0.20250801101112-0123456789ab": "yes"},
		origin.KURL:   {"1.2": "yes", "v5": "yes", "2025-10-15T17-29-55Z": "yes", "1.2.3-rc1": "pre", "3f2a9c1": "no", "nightly": "no", "sha256-0123": "no", "20230417": "yes", "": "no"},
		origin.Debian: {"1.2-1": "yes", "1:1.0~rc93-1": "pre", "a b": "no", "": "no"},
	} {
		for tag, want := range tags {
			pre, ok := judge(order, tag)
			if got := map[bool]string{false: "no", true: "yes"}[ok]; got != want && !(ok && pre && want == "pre") || ok && pre != (want == "pre") {
				t.Errorf("%s: %q is %s (pre-release: %t), want %s", order, tag, got, pre, want)
			}
		}
	}
}

func TestEndOfLineIsNoted(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	dates, err := cycles([]byte(`[{"cycle": "1.36", "eol": "2027-06-28"}, {"cycle": 2, "eol": false}, {"cycle": "3", "eol": true}, {"cycle": "1.4", "eol": "2026-11-27"}, {"cycle": "9", "eol": null}]`))
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"1.36.3": "2027-06-28", "2.1.0": "", "3.9": " upstream no longer maintains 3", "v1.4.1": "2026-11-27 upstream maintains 1.4 until 2026-11-27", "5.0": "", "nightly": "", "": "",
	} {
		r := Row{Has: version}
		dates.note(&r, now)
		if got := strings.TrimRight(r.EndOfLife+" "+strings.Join(r.Notes, ";"), " "); got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}

// FuzzVersions checks that what is offered is one word, and that the order of two versions does not depend on who is asked first.
func FuzzVersions(f *testing.F) {
	for _, seed := range []string{"v1.2.3 1.2.3-rc.1", "1.2-1 1:1.0~rc93-1", "v0.0.0-20250801101112-0123456789ab 2025-10-15T17-29-55Z", "1.0.0\x1b[2J 1.0.0;reboot"} {
		f.Add(seed, "v*")
	}
	f.Fuzz(func(t *testing.T, tags, pattern string) {
		var found []Release
		for tag := range strings.SplitSeq(tags, " ") {
			found = append(found, Release{Version: tag})
		}
		for _, order := range []origin.Order{origin.SemVer, origin.KURL, origin.Debian} {
			list := tidy(origin.Rule{Order: order, Tag: pattern}, found)
			for _, a := range list {
				if strings.ContainsAny(a.Version, " \t\n;$`'\"\x1b") || a.Version == "" || strings.HasPrefix(a.Version, "-") {
					t.Errorf("%q is offered as a version", a.Version)
				}
				for _, b := range list {
					if ab, ba := compare(order, a.Version, b.Version), compare(order, b.Version, a.Version); ab < 0 != (ba > 0) {
						t.Errorf("%s: %q and %q compare as %d and %d", order, a.Version, b.Version, ab, ba)
					}
				}
				_ = lineOf(origin.MinorLine, a.Version)
				_ = skipped(origin.MinorLine, a.Version, "2.0")
			}
		}
	})
}

// FuzzDocuments reads what upstreams serve. A damaged document is an error.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte("Package: runc\nVersion: 1\n\n"))
	f.Add([]byte(`<metadata><package><name>runc</name><version ver="1" rel="2"/></package></metadata>`))
	f.Add([]byte(`<repomd><data type="primary"><location href="../x"/></data></repomd>`))
	f.Add([]byte("module m\nretract [v1.0.0, v1.2.0] // x\n"))
	f.Add([]byte("v1.0.0\nv2.0.0+incompatible\n"))
	f.Add([]byte(`[{"cycle": 1.2, "eol": "2027-01-01"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := debianVersions(bytes.NewReader(data), "runc"); err != nil {
			t.Error(err)
		}
		var syntax *xml.SyntaxError
		if _, err := rpmVersions(bytes.NewReader(data), "runc"); err != nil && !errors.As(err, &syntax) && !strings.Contains(err.Error(), "damaged") {
			t.Error(err)
		}
		if href, err := primaryIndex(data); err == nil && (strings.Contains(href, "..") && strings.HasPrefix(href, "..") || strings.HasPrefix(href, "/") || strings.Contains(href, "://")) {
			t.Errorf("%q leads out", href)
		}
		withdrawn := retracted(data)
		for _, v := range append(moduleVersions(data), "v1.0.0") {
			_ = withdrawn(v)
		}
		_ = newestModule(moduleVersions(data))
		_, _ = cycles(data)
	})
}
