package bundle

import (
	"encoding/json"
	"strings"
	"testing"
)

func validIndex() Index {
	const digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	entry := func(path string, offset int64) Entry {
		return Entry{Path: path, Mode: 0o644, Size: 5, SHA256: digest, Encoding: Stored, Offset: offset, Length: storedLength(512, 5), Header: 512}
	}
	return Index{
		Format: Format, Kind: KindPackage, Packages: []PackageInfo{{Name: "a", Version: "1"}},
		Entries: []Entry{entry("addons/a/1/x", 0), entry("addons/a/1/y", storedLength(512, 5))},
	}
}

func TestHostileIndexIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(*Index)
		want  string
	}{
		"unknown format":           {func(x *Index) { x.Format = "sealift.dev/archive/v9" }, "use the one that made"},
		"parent path":              {func(x *Index) { x.Entries[0].Path = "addons/a/1/../../../etc/passwd" }, "clean relative path"},
		"absolute path":            {func(x *Index) { x.Entries[0].Path = "/etc/passwd" }, "clean relative path"},
		"backslash":                {func(x *Index) { x.Entries[0].Path = `addons/a/1/..\x` }, "clean relative path"},
		"outside of its add-on":    {func(x *Index) { x.Entries[0].Path = "addons/b/1/x" }, "lies outside addons/a/1"},
		"package named ..":         {func(x *Index) { x.Packages[0].Name = ".." }, "not usable"},
		"package with a slash":     {func(x *Index) { x.Packages[0].Version = "1/2" }, "not usable"},
		"listed twice":             {func(x *Index) { x.Entries[1].Path = x.Entries[0].Path }, "listed twice"},
		"overlap":                  {func(x *Index) { x.Entries[1].Offset-- }, "impossible extent"},
		"negative size":            {func(x *Index) { x.Entries[0].Size = -1 }, "impossible extent"},
		"stored in too few bytes":  {func(x *Index) { x.Entries[1].Size = 600 }, "stored in"},
		"setuid":                   {func(x *Index) { x.Entries[0].Mode = 0o4755 }, "octal"},
		"short digest":             {func(x *Index) { x.Entries[0].SHA256 = "abc" }, "hex digits"},
		"unknown encoding":         {func(x *Index) { x.Entries[0].Encoding = "zstd" }, "not known"},
		"link to nothing":          {func(x *Index) { x.Entries[1].Encoding, x.Entries[1].Link = Link, "addons/a/1/z" }, "not an earlier file"},
		"link to itself":           {func(x *Index) { x.Entries[1].Encoding, x.Entries[1].Link = Link, "addons/a/1/y" }, "not an earlier file"},
		"two packages in one":      {func(x *Index) { x.Packages = append(x.Packages, x.Packages[0]) }, "describes itself"},
		"neither package nor such": {func(x *Index) { x.Kind = "disk" }, "neither package nor bundle"},
	} {
		t.Run(name, func(t *testing.T) {
			x := validIndex()
			row.spoil(&x)
			data, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parseIndex(data); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want an error with %q", err, row.want)
			}
		})
	}
	data, err := validIndex().marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseIndex(data); err != nil {
		t.Errorf("the index before spoiling: %v", err)
	}
	if _, err := parseIndex([]byte(strings.Replace(string(data), `"kind"`, `"knd"`, 1))); err == nil {
		t.Error("unknown field accepted")
	}
}
