package page

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/console/upload"
)

// The places of bundles, in paths of pages.
const (
	inUploads = "uploaded"
	inFolder  = "folder"
)

// bundleLine is a bundle in a list.
type bundleLine struct {
	Name, From string
	Size       int64
	Time       time.Time
	Upload     upload.Upload // if it was uploaded
}

// ID is the name of the bundle in forms.
func (b bundleLine) ID() string {
	if b.From == inUploads {
		return command.UploadedPrefix + b.Name
	}
	return b.Name
}

// Path is the address of the page of the bundle.
func (b bundleLine) Path() string { return "/bundles/" + b.From + "/" + b.Name }

// listBundles lists the bundles of this node, the uploaded ones first. The error says what a person can do about it.
func (s *Site) listBundles() (all []bundleLine, err error) {
	ready := map[string]upload.Upload{}
	for _, u := range s.spool.List() {
		if u.State == upload.Ready {
			ready[u.Name] = u
		}
	}
	for _, place := range []struct{ from, folder string }{{inUploads, s.Settings.Uploads}, {inFolder, s.Settings.Bundles}} {
		if place.folder == "" {
			continue
		}
		entries, failed := os.ReadDir(place.folder)
		if errors.Is(failed, fs.ErrNotExist) {
			failed = fmt.Errorf("%s does not exist; create it, and put bundles into it", place.folder)
		}
		err = errors.Join(err, failed)
		for _, e := range entries {
			info, failed := e.Info()
			if failed != nil || !upload.IsBundle(e.Name()) || strings.HasSuffix(e.Name(), licenses) || !info.Mode().IsRegular() || len(all) == maxRows {
				continue
			}
			line := bundleLine{Name: e.Name(), From: place.from, Size: info.Size(), Time: info.ModTime()}
			if place.from == inUploads {
				line.Upload = ready[e.Name()]
			}
			all = append(all, line)
		}
	}
	return all, err
}

// bundlesPage is the data of the page with bundles.
type bundlesPage struct {
	Folder   string
	Problem  string
	Setup    string // the command without which nothing can be uploaded, "" if it can
	Bundles  []bundleLine
	Uploads  []uploadLine // that are not ready
	Checking bool         // a bundle is being checked
	Example  string
}

// uploadLine is an upload on a page.
type uploadLine struct {
	upload.Upload
	Reason text
	Mine   bool
}

// refresh makes the page reload itself while a bundle is checked.
func (p bundlesPage) refresh() bool { return p.Checking }

func (s *Site) bundles(w http.ResponseWriter, r *http.Request, v visitor) error {
	p := bundlesPage{Folder: s.Settings.Bundles, Example: "sealift-console upload cluster.tar.gz --console https://" + r.Host}
	if len(s.Settings.BundleKeys) == 0 {
		p.Setup = "sudo sealift-console on --bundle-key FILE"
	}
	var err error
	if p.Bundles, err = s.listBundles(); err != nil {
		p.Problem = err.Error()
	}
	for _, u := range s.spool.List() {
		if u.State != upload.Ready {
			p.Uploads = append(p.Uploads, uploadLine{u, clean(u.Reason), u.Who == v.session.Who() || v.session.Role.Has(access.DeleteBundle)})
			p.Checking = p.Checking || u.State == upload.Checking
		}
	}
	var more int
	p.Uploads = shorten(p.Uploads, &more)
	return s.show(w, r, v, "bundles", http.StatusOK, "Bundles", p)
}

// inspected is what the page of a bundle needs of 'sealift inspect -o json'.
type inspected struct {
	Digest    text   `json:"digest"`
	Kind      text   `json:"kind"`
	Signed    bool   `json:"signed"`
	Base      text   `json:"base"`
	Platforms []text `json:"platforms"`
	Packages  []struct {
		Name    text       `json:"name"`
		Version text       `json:"version"`
		Targets []text     `json:"targets"`
		Images  []struct{} `json:"images"`
	} `json:"packages"`
	Entries []struct {
		Path   string `json:"path"`
		Length int64  `json:"length"`
	} `json:"entries"`
}

// packageLine is a package of a bundle.
type packageLine struct {
	Name, Version text
	Targets       string
	Images        int
	Size          int64 // bytes in the bundle. Files that several packages share count for the first
}

// packages lists the packages of a bundle, the largest first, with the bytes of everything else.
func (i inspected) packages() (all []packageLine, others int64) {
	sizes := map[string]int64{}
	for _, e := range i.Entries {
		parts := strings.SplitN(e.Path, "/", 4)
		if len(parts) < 4 || parts[0] != "addons" {
			others += e.Length
			continue
		}
		sizes[string(clean(parts[1]+"/"+parts[2]))] += e.Length
	}
	for _, p := range i.Packages {
		var targets []string
		for _, t := range p.Targets {
			targets = append(targets, string(t))
		}
		all = append(all, packageLine{p.Name, p.Version, strings.Join(targets, ", "), len(p.Images), sizes[string(p.Name+"/"+p.Version)]})
	}
	slices.SortStableFunc(all, func(a, b packageLine) int { return cmp.Compare(b.Size, a.Size) })
	return all, others
}

// bundlePage is the data of the page of a bundle.
type bundlePage struct {
	Bundle   bundleLine
	Source   source
	Read     inspected
	Packages []packageLine
	Others   int64 // bytes that belong to no package
	Largest  int64
	More     int
	Evidence []string // files beside the bundle
	Verify   string
}

// findBundle returns the bundle of a request.
func (s *Site) findBundle(from, name string) (bundleLine, error) {
	all, err := s.listBundles()
	at := slices.IndexFunc(all, func(b bundleLine) bool { return b.From == from && b.Name == name })
	if at < 0 {
		return bundleLine{}, errors.Join(err, errNotFound)
	}
	return all[at], nil
}

func (s *Site) bundle(w http.ResponseWriter, r *http.Request, v visitor) error {
	b, err := s.findBundle(r.PathValue("from"), r.PathValue("name"))
	if err != nil {
		return err
	}
	file := filepath.Join(s.Settings.Bundles, b.Name)
	if b.From == inUploads {
		file = filepath.Join(s.Settings.Uploads, b.Name)
	}
	p := bundlePage{Bundle: b, Evidence: evidenceOf(file), Verify: command.Line("verify", file)}
	d := s.reader.Once(r.Context(), "inspect", file)
	p.Source = sourceOf(d, d.Decode(&p.Read))
	p.Packages, p.Others = p.Read.packages()
	p.Read.Entries = nil
	if len(p.Packages) > 0 {
		p.Largest = max(p.Packages[0].Size, 1)
	}
	p.Packages = shorten(p.Packages, &p.More)
	return s.show(w, r, v, "bundle", http.StatusOK, b.Name, p)
}

// licenses ends the name of the archive with the texts of a bundle's licenses.
const licenses = ".licenses.tar.gz"

// evidenceOf lists the files that 'sealift evidence' and 'sealift verdict' write beside a bundle.
func evidenceOf(file string) (names []string) {
	base := strings.TrimSuffix(strings.TrimSuffix(file, ".tgz"), ".tar.gz")
	for _, end := range []string{".evidence.json", ".evidence.json.sig", ".spdx.json", ".cdx.json", licenses, ".difference.json", ".difference.html", "." + verdict.Name} {
		if info, err := os.Lstat(base + end); err == nil && info.Mode().IsRegular() {
			names = append(names, base+end)
		}
	}
	return names
}

func (s *Site) askDelete(w http.ResponseWriter, r *http.Request, v visitor) error {
	b, err := s.findBundle(inUploads, r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.show(w, r, v, "delete-bundle", http.StatusOK, "Delete "+b.Name, b)
}

func (s *Site) deleteBundle(w http.ResponseWriter, r *http.Request, v visitor) error {
	name := r.PathValue("name")
	work, err := s.Background.Read(r.Context())
	if err != nil {
		return err
	}
	if work.Running && work.Bundle == command.UploadedPrefix+name {
		return s.fail(w, r, v, http.StatusConflict, "Not deleted", "An upgrade with this bundle is running. Wait until it ends.")
	}
	if err := s.spool.Delete(name); errors.Is(err, upload.ErrNone) {
		return errNotFound
	} else if err != nil {
		return err
	}
	s.note(s.Audit, r, v, "delete bundle", "done", name)
	http.Redirect(w, r, "/bundles", http.StatusSeeOther)
	return nil
}
