package registry_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/faultyregistry"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/registry"
)

// recorded are options that keep a record.
func recorded(t *testing.T, host string) registry.Options {
	t.Helper()
	o := options(t, host)
	o.Record = true
	return o
}

// prune pushes an archive and removes what it does not have. It returns the targets by their states, as "image:tag".
func prune(t *testing.T, a *bundle.Archive, o registry.Options) map[string][]string {
	t.Helper()
	p, err := registry.Prepare(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := p.Stale(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	done, err := p.Prune(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	states := make(map[string][]string)
	for _, i := range slices.Concat(planned, done) {
		states[i.State] = append(states[i.State], strings.TrimPrefix(i.Target, o.Target.Host+"/mirror/"))
	}
	return states
}

// exists reports whether a tag or digest below the prefix is there.
func exists(t *testing.T, host, target string) bool {
	t.Helper()
	ref, err := name.ParseReference(host + "/mirror/" + target)
	if err != nil {
		t.Fatal(err)
	}
	_, err = remote.Head(ref)
	return err == nil
}

func write(t *testing.T, host, target string, image v1.ImageIndex) {
	t.Helper()
	ref, err := name.ParseReference(host + "/mirror/" + target)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, image); err != nil {
		t.Fatal(err)
	}
}

// TestPruneRemovesOnlyWhatPushesBrought has tags of other people in every place where one could be taken for a push's.
func TestPruneRemovesOnlyWhatPushesBrought(t *testing.T) {
	image := func(seed int64) v1.ImageIndex { return index(platformImage(t, "amd64", layer(t, seed))) }
	old, shared, changed, theirs, child := image(1), image(2), image(3), image(4), platformImage(t, "amd64", layer(t, 5))
	kept := image(6)
	for what, start := range map[string]func(t *testing.T) string{
		"distribution": realregistry.Start,
		"a registry that removes no single tags": func(t *testing.T) string {
			r := faultyregistry.New(t)
			r.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodDelete || strings.Contains(r.URL.Path, "sha256:") {
					return false
				}
				w.WriteHeader(http.StatusMethodNotAllowed)
				return true
			})
			return r.Host
		},
	} {
		t.Run(what, func(t *testing.T) {
			host := start(t)
			o := recorded(t, host)
			write(t, host, "a.example/before:1", theirs) // somebody has pushed it before
			first := map[string]v1.ImageIndex{
				"a.example/app:1": old, "a.example/shared:1": shared, "a.example/changed:1": changed, "a.example/before:1": theirs,
				"a.example/child:1": index(child), "a.example/kept:1": kept,
			}
			if states := prune(t, content(t, first), o); len(states) > 0 {
				t.Fatalf("the first push finds %v", states)
			}
			write(t, host, "a.example/app:theirs", kept)
			write(t, host, "a.example/shared:theirs", shared)
			write(t, host, "a.example/changed:1", kept)
			write(t, host, "a.example/child:theirs", index(child, platformImage(t, "arm64", layer(t, 7))))

			second := content(t, map[string]v1.ImageIndex{"a.example/kept:1": kept, "a.example/new:1": image(8)})
			states := prune(t, second, o)
			wantStale := []string{"a.example/app:1", "a.example/child:1", "a.example/shared:1"}
			if !slices.Equal(states[registry.Stale], wantStale) {
				t.Errorf("the plan has %v", states[registry.Stale])
			}
			removed := wantStale
			if what != "distribution" {
				removed = []string{"a.example/app:1", "a.example/child:1"}
				if !slices.Equal(states[registry.Kept], []string{"a.example/shared:1"}) {
					t.Errorf("kept %v", states[registry.Kept])
				}
			}
			if !slices.Equal(states[registry.Removed], removed) {
				t.Errorf("removed %v", states[registry.Removed])
			}
			there := []string{"a.example/kept:1", "a.example/new:1", "a.example/before:1", "a.example/app:theirs", "a.example/shared:theirs", "a.example/changed:1", "a.example/child:theirs"}
			for _, target := range there {
				if !exists(t, host, target) {
					t.Errorf("%s is gone", target)
				}
			}
			check(t, host+"/mirror/a.example/shared:theirs", shared)
			if what == "distribution" { // the other one keeps tags of digests that are gone
				for _, target := range removed {
					if exists(t, host, target) {
						t.Errorf("%s is there", target)
					}
				}
			}
			write(t, host, "a.example/changed:1", changed) // as the push had brought it
			again := prune(t, second, o)
			delete(again, registry.Kept)
			if what == "distribution" && len(again) > 0 {
				t.Errorf("again: %v", again)
			}
		})
	}
}

// TestPruneTakesAttachments removes an image with its SBOM and signatures, and leaves those of an image that stays.
func TestPruneTakesAttachments(t *testing.T) {
	host, images := realregistry.Start(t), several(t)
	all := attachments(t, images["registry.k8s.io/other:v2"])
	o := recorded(t, host)
	if _, err := push(t.Context(), attach(t, content(t, images), all), o); err != nil {
		t.Fatal(err)
	}
	if states := prune(t, content(t, images), o); len(states) > 0 {
		t.Errorf("the image stays, and the plan has %v", states)
	}
	checkAttached(t, host, all)
	delete(images, "registry.k8s.io/other:v2")
	states := prune(t, content(t, images), o)
	if len(states[registry.Removed]) != 1+len(all) || len(states[registry.Kept]) > 0 {
		t.Errorf("%v", states)
	}
	tag := strings.Replace(all[0].subject.String(), ":", "-", 1)
	for _, gone := range []string{":v2", "@" + all[0].subject.String(), "@" + digestOf(t, all[0]), "@" + digestOf(t, all[1]), ":" + all[2].tag, ":" + tag} {
		if exists(t, host, "registry.k8s.io/other"+gone) {
			t.Errorf("%s is there", gone)
		}
	}
	s := site{&faultyregistry.Registry{Host: host}}
	s.checkAll(t, images)
}

// TestPruneLeavesAttachmentsOfWhatStays has a tag of somebody else for an image that goes: its signatures, and what is attached to them, stay.
func TestPruneLeavesAttachmentsOfWhatStays(t *testing.T) {
	host, images := realregistry.Start(t), several(t)
	const ref = "registry.k8s.io/other:v2"
	all := attachments(t, images[ref])
	o := recorded(t, host)
	if _, err := push(t.Context(), attach(t, content(t, images), all), o); err != nil {
		t.Fatal(err)
	}
	write(t, host, "registry.k8s.io/other:theirs", images[ref])
	delete(images, ref)
	states := prune(t, content(t, images), o)
	if !slices.Equal(states[registry.Removed], []string{ref}) || len(states[registry.Kept]) != len(all) {
		t.Errorf("%v", states)
	}
	checkAttached(t, host, all)
	if exists(t, host, ref) {
		t.Errorf("%s is there", ref)
	}
	if states := prune(t, content(t, images), o); len(states) > 0 {
		t.Errorf("again: %v", states)
	}
}

// TestPruneRemovesOnlyWhatItHasShown has other pushes between the plan and the removal, and during the removal.
func TestPruneRemovesOnlyWhatItHasShown(t *testing.T) {
	s := newSite(t)
	image := func(seed int64) v1.ImageIndex { return index(platformImage(t, "amd64", layer(t, seed))) }
	bring := func(ref string, seed int64) {
		if _, err := push(t.Context(), content(t, map[string]v1.ImageIndex{ref: image(seed)}), recorded(t, s.Host)); err != nil {
			t.Error(err)
		}
	}
	bring("a.example/old:1", 1)
	p, err := registry.Prepare(t.Context(), withChart(t, "none", nil), recorded(t, s.Host))
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := p.Stale(t.Context()); err != nil || len(shown) != 1 {
		t.Fatal(shown, err)
	}
	bring("a.example/between:1", 2)
	var once sync.Once
	s.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			once.Do(func() { bring("a.example/during:1", 3) })
		}
		return false
	})
	done, err := p.Prune(t.Context())
	if err != nil || len(done) != 1 || done[0].Ref != "a.example/old:1" || done[0].State != registry.Removed {
		t.Errorf("%+v, %v", done, err)
	}
	left, err := p.Stale(t.Context())
	var refs []string
	for _, i := range left {
		refs = append(refs, i.Ref)
	}
	if want := []string{"a.example/between:1", "a.example/during:1"}; err != nil || !slices.Equal(refs, want) {
		t.Errorf("the record has %v, %v", refs, err)
	}
}

// TestInterruptedPushIsRecorded uses a registry that fails after the first image: what has arrived can be pruned.
func TestInterruptedPushIsRecorded(t *testing.T) {
	s, images := newSite(t), several(t)
	var tags atomic.Int64
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		tag := r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") && !strings.Contains(r.URL.Path, "sha256:") && !strings.Contains(r.URL.Path, "sealift.dev")
		if !tag || tags.Add(1) == 1 {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	o := recorded(t, s.Host)
	o.Parallel = 1
	if _, err := push(t.Context(), content(t, images), o); err == nil {
		t.Fatal("the push was not interrupted")
	}
	s.SetFault(nil)
	p, err := registry.Prepare(t.Context(), withChart(t, "none", nil), recorded(t, s.Host))
	if err != nil {
		t.Fatal(err)
	}
	stale, err := p.Stale(t.Context())
	if err != nil || len(stale) == 0 || len(stale) == len(images) {
		t.Errorf("%+v, %v", stale, err)
	}
}

func TestUnusableRecordIsRefused(t *testing.T) {
	s, images := newSite(t), several(t)
	a := content(t, images)
	if _, err := push(t.Context(), a, recorded(t, s.Host)); err != nil {
		t.Fatal(err)
	}
	var said []string
	o := recorded(t, s.Host)
	o.Say = func(line string) { said = append(said, line) }
	write(t, s.Host, "sealift.dev/pushed:v1", index(platformImage(t, "amd64", layer(t, 1))))
	p, err := registry.Prepare(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stale(t.Context()); err == nil || !strings.Contains(err.Error(), "/mirror/sealift.dev/pushed:v1") {
		t.Errorf("%v", err)
	}
	images["a.example/more:1"] = index(platformImage(t, "amd64", layer(t, 9)))
	if _, err := push(t.Context(), content(t, images), o); err != nil || !slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, "is not recorded") }) {
		t.Errorf("%v, %q", err, said)
	}
}

// TestDeletingIsRefused uses a registry that deletes nothing.
func TestDeletingIsRefused(t *testing.T) {
	s := faultyregistry.New(t, ggcr.WithReferrersSupport(true))
	o := recorded(t, s.Host)
	if _, err := push(t.Context(), content(t, several(t)), o); err != nil {
		t.Fatal(err)
	}
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
		return r.Method == http.MethodDelete
	})
	p, err := registry.Prepare(t.Context(), withChart(t, "none", nil), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stale(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := p.Prune(t.Context()); err == nil || len(done) > 0 || !strings.Contains(err.Error(), s.Host+" refuses to delete") {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestPruneGoesOnWhereRegistryRefuses uses a registry that keeps a manifest while an index lists it, as Harbor does, and one with a rule for good.
func TestPruneGoesOnWhereRegistryRefuses(t *testing.T) {
	s := newSite(t)
	o := recorded(t, s.Host)
	child := index(platformImage(t, "amd64", layer(t, 1)))
	held, err := child.Digest()
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]v1.ImageIndex{
		"a.example/app:1": child, "a.example/app:2": index(platformImage(t, "amd64", layer(t, 2))),
		"b.example/ruled:1": index(platformImage(t, "amd64", layer(t, 3))), "c.example/last:1": index(platformImage(t, "amd64", layer(t, 4))),
	}
	if _, err := push(t.Context(), content(t, images), o); err != nil {
		t.Fatal(err)
	}
	var deleted atomic.Int64 // of a.example
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		first := strings.HasSuffix(r.URL.Path, "/app/manifests/"+held.String()) || strings.HasSuffix(r.URL.Path, "/app/manifests/1")
		switch {
		case first && deleted.Load() == 0:
			w.WriteHeader(http.StatusPreconditionFailed)
		case strings.Contains(r.URL.Path, "/b.example/"):
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"errors": [{"code": "DENIED", "message": "a rule keeps it` + strings.Repeat("!", 1000) + `"}]}`))
		default:
			if !first {
				deleted.Add(1)
			}
			return false
		}
		return true
	})
	p, err := registry.Prepare(t.Context(), withChart(t, "none", nil), o)
	if err != nil {
		t.Fatal(err)
	}
	if stale, err := p.Stale(t.Context()); err != nil || len(stale) != len(images) {
		t.Fatal(stale, err)
	}
	done, err := p.Prune(t.Context())
	if err != nil || len(done) != len(images) {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, i := range done {
		kept := strings.HasPrefix(i.Ref, "b.example/")
		if kept != (i.State == registry.Kept) || kept && (!strings.Contains(i.Note, "a rule keeps it") || len(i.Note) > 500) {
			t.Errorf("%+v", i)
		}
	}
	if left, err := p.Stale(t.Context()); err != nil || len(left) != 1 || left[0].Ref != "b.example/ruled:1" {
		t.Errorf("the record has %+v, %v", left, err)
	}
}
