package hostpkg

import (
	"bufio"
	"fmt"
	"path"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/hostpkg/repodata"
	"github.com/sealift/sealift/builder/packfile"
	"github.com/sealift/sealift/bundle"
)

// KeysDir is the folder of a yum repository that has the armored keys of its packages, which a host checks their
// signatures with.
const KeysDir = "keys"

// yumRepository makes a repository of rpm packages: the packages, the lists in repodata, and the keys.
func yumRepository(dir string, packages []Resolved, c *cache.Cache) ([]bundle.File, error) {
	var files []bundle.File
	var lists repodata.Writer
	keys := make(map[string]bool)
	for _, r := range packages {
		p, err := headerOf(c, r)
		if err == nil {
			err = r.checkIdentity(rpmID(p.Name, p.Epoch, p.Version, p.Release, p.Arch))
		}
		if err == nil {
			err = lists.Add(p, r.fileName(), r.SHA256, r.Size)
		}
		if err != nil {
			return nil, fmt.Errorf("package %s %s for %s: %w", r.Name, r.Version, r.Target, err)
		}
		files = append(files, packfile.Cached(path.Join(dir, r.fileName()), c, r.SHA256, r.Size))
		if r.Key == "" || keys[r.Key] {
			continue
		}
		keys[r.Key] = true
		data, err := c.Read(r.Key, maxKeys)
		if err != nil {
			return nil, fmt.Errorf("keys of %s: %w", r.Target, err)
		}
		files = append(files, packfile.Bytes(path.Join(dir, KeysDir, r.Key+".asc"), data))
	}
	for _, d := range lists.Documents() {
		files = append(files, packfile.Bytes(path.Join(dir, d.Path), d.Data))
	}
	return files, nil
}

func headerOf(c *cache.Cache, r Resolved) (*repodata.Package, error) {
	f, err := c.Open(r.SHA256)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return repodata.Read(bufio.NewReader(f))
}
