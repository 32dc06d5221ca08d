package upstream

import (
	"context"
	"encoding/json"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/sealift/sealift/catalog/origin"
)

const (
	moduleProxy   = "https://proxy.golang.org/"
	maxModuleFile = 16 << 20 // bytes, of a go.mod and of a list
)

// goModule lists the versions of a Go module. A module without tagged versions has one: the pseudo-version of its newest commit. Its
// author withdraws versions in the go.mod of the newest one (https://go.dev/ref/mod#go-mod-file-retract).
func (s *Source) goModule(ctx context.Context, rule origin.Rule) ([]Release, error) {
	path, err := module.EscapePath(rule.Name)
	if err != nil {
		return nil, err
	}
	base := moduleProxy + path + "/@"
	data, err := s.text(ctx, base+"v/list", maxModuleFile)
	if err != nil {
		return nil, err
	}
	versions := moduleVersions(data)
	if len(versions) == 0 {
		data, err := s.text(ctx, base+"latest", maxModuleFile)
		if err != nil {
			return nil, err
		}
		var latest struct{ Version string }
		if err := json.Unmarshal(data, &latest); err != nil {
			return nil, err
		}
		return []Release{{Version: latest.Version}}, nil
	}
	escaped, err := module.EscapeVersion(newestModule(versions))
	if err != nil {
		return nil, err
	}
	data, err = s.text(ctx, base+"v/"+escaped+".mod", maxModuleFile)
	if err != nil {
		return nil, err
	}
	withdrawn := retracted(data)
	var all []Release
	for _, v := range versions {
		all = append(all, Release{Version: v, PreRelease: semver.Prerelease(v) != "", Withdrawn: withdrawn(v)})
	}
	return all, nil
}

// moduleVersions reads a list of versions. Others belong to no module.
func moduleVersions(list []byte) (versions []string) {
	for line := range strings.Lines(string(list)) {
		if v := strings.TrimSpace(line); semver.IsValid(v) && semver.Canonical(v)+semver.Build(v) == v {
			versions = append(versions, v)
		}
	}
	return versions
}

// newestModule returns the version whose go.mod has retractions: the newest release, or else the newest pre-release.
func newestModule(versions []string) (newest string) {
	for _, v := range versions {
		switch stable := semver.Prerelease(v) == ""; {
		case newest == "", stable && semver.Prerelease(newest) != "":
			newest = v
		case stable == (semver.Prerelease(newest) == "") && semver.Compare(v, newest) > 0:
			newest = v
		}
	}
	return newest
}

// retracted returns the reason for which a go.mod retracts a version, or "". A go.mod that is not valid retracts nothing.
func retracted(goMod []byte) func(version string) string {
	file, err := modfile.ParseLax("go.mod", goMod, nil)
	if err != nil {
		return func(string) string { return "" }
	}
	return func(version string) string {
		for _, r := range file.Retract {
			if semver.Compare(r.Low, version) <= 0 && semver.Compare(version, r.High) <= 0 {
				reason, _, _ := strings.Cut(r.Rationale, "\n")
				return strings.TrimSpace("retracted " + reason)
			}
		}
		return ""
	}
}
