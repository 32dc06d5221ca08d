package upstream

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/manifest"
)

const repository = "../../.."

// own begins the names of images that 'make image' makes of this repository. They do not come from upstream, so the lab does not
// serve them.
const own = "ghcr.io/sealift/"

// offers compares the content that the lab serves with the Manifests, and lists what is missing.
func offers(t *testing.T, addOns []string, served []Image, files []Download) (missing []string) {
	t.Helper()
	var images, downloads []string
	for _, image := range served {
		images = append(images, image.Ref)
	}
	for _, download := range files {
		downloads = append(downloads, download.URL)
	}
	for _, addOn := range addOns {
		file, err := manifest.Load(filepath.Join(repository, addOn, manifest.FileName))
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range file.Images() {
			if !slices.Contains(images, image.Ref) && !strings.HasPrefix(image.Ref, own) {
				missing = append(missing, addOn+": image "+image.Ref)
			}
		}
		for _, asset := range file.Assets() {
			source := strings.ReplaceAll(asset.Source, manifest.ArchWord, "amd64") // what the lab has unless it is asked for more
			if url, remote := strings.CutPrefix(source, "https://"); remote && !slices.Contains(downloads, url) {
				missing = append(missing, addOn+": asset "+asset.Source)
			}
		}
		for _, chart := range file.Charts() {
			if repository, inRegistry := strings.CutPrefix(chart.Repository, manifest.OCIScheme); inRegistry {
				if !slices.Contains(images, repository+":"+chart.Version) {
					missing = append(missing, addOn+": chart "+chart.Repository)
				}
			} else if index := strings.TrimPrefix(chart.Repository, "https://") + "/index.yaml"; !slices.Contains(downloads, index) {
				missing = append(missing, addOn+": chart "+chart.Name+" of "+chart.Repository)
			}
		}
	}
	return missing
}

// catalogue lists the add-ons that ship, as addons/name/version.
func catalogue(t *testing.T) (list []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(repository, "addons/*/*/"+manifest.FileName))
	if err != nil || len(found) == 0 {
		t.Fatalf("found %q: %v", found, err)
	}
	for _, name := range found {
		addOn, err := filepath.Rel(repository, filepath.Dir(name))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, addOn)
	}
	return list
}

// A machine whose cache has every release can build more than one without them: each selection must be complete.
func TestEachReleaseServesItsManifests(t *testing.T) {
	for _, version := range Releases() {
		var addOns []string
		for _, r := range selected([]string{version}) {
			if r.Use >= releases.Shipped {
				addOns = append(addOns, r.Folder())
			}
		}
		if missing := offers(t, addOns, Images(version), Downloads(version)); len(missing) > 0 {
			t.Errorf("the lab for %s does not offer\n%s", version, strings.Join(missing, "\n"))
		}
	}
	everyday := slices.DeleteFunc(catalogue(t), func(addOn string) bool {
		return !slices.ContainsFunc(releases.All(), func(r releases.Release) bool { return r.Folder() == addOn && r.Use >= releases.Tested })
	})
	if missing := offers(t, everyday, Images(), Downloads()); len(missing) > 0 {
		t.Errorf("the lab without a choice does not offer\n%s", strings.Join(missing, "\n"))
	}
	if missing := offers(t, catalogue(t), ImagesOf(releases.All()...), DownloadsOf(releases.All()...)); len(missing) > 0 {
		t.Errorf("the whole lab does not offer\n%s", strings.Join(missing, "\n"))
	}
}

func TestLabServesDemo(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/demo.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if uses := strings.Count(string(script), `--kubernetes "$kubernetes"`); uses != 2 {
		t.Errorf("demo.sh builds and serves another release than the one it names: %d uses", uses)
	}
	addOns := []string{"testgrid/demo/greeter/0.1.0"}
	for _, name := range []string{"containerd", "kubernetes", "flannel", "local-path-provisioner", "metrics-server", "operator"} {
		addOns = append(addOns, releases.Current(name).Folder())
	}
	version := "v" + releases.Current("kubernetes").Version
	if missing := offers(t, addOns, Images(version), Downloads(version)); len(missing) > 0 {
		t.Errorf("the demo's lab does not offer\n%s", strings.Join(missing, "\n"))
	}
}

// A choice of one add-on's version leaves the others as they are, and each version can be served.
func TestChosenAddOnsAreServed(t *testing.T) {
	for _, chosen := range AddOns() {
		var names []string
		for _, r := range selected([]string{chosen}) {
			names = append(names, r.Name+"/"+r.Version)
		}
		name, version, _ := strings.Cut(chosen, "/")
		for _, r := range releases.Of(name, releases.Lab) {
			if slices.Contains(names, name+"/"+r.Version) != (r.Version == version) {
				t.Errorf("with %s the lab has %q", chosen, names)
			}
		}
		for _, r := range releases.All() {
			if r.Name != name && slices.Contains(names, r.Name+"/"+r.Version) != (r.Use >= releases.Tested) {
				t.Errorf("with %s the lab has %q", chosen, names)
			}
		}
		if len(ImagesOf(selected([]string{chosen})...)) == 0 || len(DownloadsOf(selected([]string{chosen})...)) == 0 {
			t.Errorf("with %s the lab serves nothing", chosen)
		}
	}
}

func TestReplacementsHaveReasons(t *testing.T) {
	ids := map[string]bool{}
	for _, c := range Components() {
		ids[c.ID()] = true
		m, _ := c.Recipe.(GoModule)
		for _, p := range m.Patches {
			if p.Module == "" || p.Why == "" {
				t.Errorf("%s has the patch %+v", c.ID(), p)
			}
		}
	}
	for id, list := range replacements() {
		if !ids[id] {
			t.Errorf("a replacement is for %s, which the lab does not make any more", id)
		}
		for _, r := range list {
			if r.Module == "" || r.Version == "" || r.Why == "" {
				t.Errorf("%s replaces %+v", id, r)
			}
		}
	}
}
