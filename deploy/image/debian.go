package main

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/builder/debfile"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

const (
	// downloadTime bounds the download of one package, and packageSize its size.
	downloadTime = 5 * time.Minute
	packageSize  = 256 << 20
)

// left out of packages, since it is not read in an image.
var leftOut = []string{"usr/share/doc/", "usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/", "usr/share/bug/"}

// merged are the folders that are links into /usr.
var merged = []string{"bin", "lib", "lib64", "sbin"}

// fetchAll returns the files of the packages that a lock names, in its order. Each is checked against its digest.
func fetchAll(lock, cache string) (names []string, err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	for line := range strings.Lines(lock) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 2 || len(fields[0]) != 2*sha256.Size {
			return nil, fmt.Errorf("the lock has the line %q; say SHA256 URL", strings.TrimSpace(line))
		}
		name := filepath.Join(cache, fields[0]+".deb")
		if err := fetch(name, fields[0], fields[1]); err != nil {
			return nil, fmt.Errorf("package %s: %w", fields[1], err)
		}
		names = append(names, name)
	}
	return names, nil
}

// fetch downloads a missing package.
func fetch(name, digest, url string) error {
	data, err := os.ReadFile(name)
	if err == nil && sha256hex.Of(data) == digest {
		return nil
	}
	client := &http.Client{Timeout: downloadTime}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the archive answers %s; if it has a newer version, put that into operator.lock", resp.Status)
	}
	if data, err = io.ReadAll(io.LimitReader(resp.Body, packageSize)); err != nil {
		return err
	}
	if got := sha256hex.Of(data); got != digest {
		return fmt.Errorf("its digest is %s, not %s", got, digest)
	}
	return atomicfile.Write(name, data)
}

// unpack reads the files that packages install, sorted.
func unpack(names ...string) ([]file, error) {
	all := map[string]file{}
	for _, name := range names {
		if err := unpackOne(name, all); err != nil {
			return nil, fmt.Errorf("package %s: %w", name, err)
		}
	}
	files := make([]file, 0, len(all))
	for _, f := range all {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files, nil
}

func unpackOne(name string, all map[string]file) error {
	deb, err := os.Open(name)
	if err != nil {
		return err
	}
	defer deb.Close()
	r, closer, err := debfile.Open(deb, debfile.Data)
	if err != nil {
		return err
	}
	defer closer.Close()
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f := file{name: placeOf(header.Name), mode: header.Mode & 0o7777}
		if f.name == "" || slices.ContainsFunc(leftOut, func(prefix string) bool { return strings.HasPrefix(f.name+"/", prefix) }) {
			continue
		}
		switch header.Typeflag {
		case tar.TypeDir:
			f.name += "/"
			if slices.Contains(merged, strings.TrimSuffix(f.name, "/")) {
				continue
			}
		case tar.TypeSymlink:
			f.link = header.Linkname
		case tar.TypeReg:
			if f.data, err = io.ReadAll(r); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is neither a file nor a folder nor a symbolic link", header.Name)
		}
		if other, known := all[f.name]; known && (other.data != nil || other.link != f.link) {
			return fmt.Errorf("another package also has %s", f.name)
		}
		all[f.name] = f
	}
}

// placeOf is where a file of a package is in the image, without a slash at either end: /bin and its like are in /usr.
func placeOf(name string) string {
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	first, _, below := strings.Cut(clean, "/")
	if below && slices.Contains(merged, first) {
		return "usr/" + clean
	}
	return clean
}
