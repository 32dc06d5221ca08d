package builder_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/testing/cosigned"
	"github.com/sealift/sealift/internal/testing/realregistry"
	"github.com/sealift/sealift/registry"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// attach puts a manifest into the registry, beside registry.example.io/<repository>, by a tag or by its digest.
func (w *world) attach(t *testing.T, repository, tag string, manifest v1.Image) {
	t.Helper()
	place := w.registry + "/mirrored/" + repository + ":" + tag
	if tag == "" {
		digest, err := manifest.Digest()
		if err != nil {
			t.Fatal(err)
		}
		place = w.registry + "/mirrored/" + repository + "@" + digest.String()
	}
	ref, err := name.ParseReference(place)
	if err == nil {
		err = remote.Write(ref, manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// descriptor describes an index that a manifest refers to.
func (w *world) descriptor(t *testing.T, repository, digest string) v1.Descriptor {
	t.Helper()
	ref, err := name.ParseReference(w.registry + "/mirrored/" + repository + "@" + digest)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	return v1.Descriptor{MediaType: types.OCIImageIndex, Digest: got.Digest, Size: got.Size}
}

// demand writes a policy to the world's sealift.yaml, with keys as files beside it.
func (w *world) demand(t *testing.T, policy string, keys map[string]cosigned.Signer) {
	t.Helper()
	for name, key := range keys {
		writeFile(t, filepath.Join(filepath.Dir(w.config), name), key.Public(t))
	}
	text, _, _ := strings.Cut(readFile(t, w.config), "signatures:\n")
	writeFile(t, w.config, text+"signatures:\n"+policy)
}

// TestPolicyDecidesOverSignedImages signs images as cosign does, in a real registry, with keys of the test.
func TestPolicyDecidesOverSignedImages(t *testing.T) {
	w := newWorld(t, "debian-12")
	key, stranger := cosigned.New(t), cosigned.New(t)
	digests := make(map[string]string)
	for n, repository := range []string{"tagged", "referred", "unsigned", "strange", "swapped", "team/free"} {
		digests[repository] = w.push(t, repository+":1", layer(byte(n+1), 1000))
	}
	for repository, signature := range map[string]v1.Image{
		"tagged":  key.Simple(t, cosigned.Payload(digests["tagged"])),
		"strange": stranger.Simple(t, cosigned.Payload(digests["strange"])),
		"swapped": key.Simple(t, cosigned.Payload(digests["tagged"])),
	} {
		w.attach(t, repository, cosigned.Tag(digests[repository]), signature)
	}
	w.attach(t, "referred", "", cosigned.Referrer(t, key.Bundle(t, cosigned.Statement(digests["referred"], cosign.SignPredicate)), w.descriptor(t, "referred", digests["referred"])))
	// distribution has no referrers API: cosign, too, then lists them under a tag.
	w.demand(t, "  registry.example.io: {keys: [app.pub]}\n  registry.example.io/team: {unsigned: true}\n", map[string]cosigned.Signer{"app.pub": key})

	manifest := func(repository string) string { return "image app registry.example.io/" + repository + ":1\n" }
	for _, repository := range []string{"tagged", "referred", "team/free"} {
		build(t, w.builder(t, openCache(t), 4), addOn(t, "app", manifest(repository)))
	}
	for repository, want := range map[string]string{
		"unsigned": "it is not signed, and signatures of \"registry.example.io\" in " + w.config + " demand one by key app.pub (SHA256:",
		"strange":  "it is not by one of the keys, or it was changed",
		"swapped":  "it is the signature of another image, " + digests["tagged"],
	} {
		out := t.TempDir()
		_, err := w.builder(t, openCache(t), 4).Build(t.Context(), addOn(t, "app", manifest(repository)), out)
		var found diag.Errors
		if !errors.As(err, &found) || len(found) != 1 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "image registry.example.io/"+repository+":1 ("+digests[repository]+")") || found[0].Hint == "" {
			t.Errorf("%s: got %v, want %s", repository, err, want)
		}
		assertEmpty(t, out)
	}
}

// TestChangedPolicyIsCheckedAgain uses a package that is up to date: another key in the policy must not leave it so.
func TestChangedPolicyIsCheckedAgain(t *testing.T) {
	w := newWorld(t, "debian-12")
	key := cosigned.New(t)
	digest := w.push(t, "app:1", layer(1, 1000))
	w.attach(t, "app", cosigned.Tag(digest), key.Simple(t, cosigned.Payload(digest)))
	dir, out, c := addOn(t, "app", "image app registry.example.io/app:1\n"), t.TempDir(), openCache(t)
	once := func() (builder.Result, error) { return w.builder(t, c, 4).Build(t.Context(), dir, out) }
	w.demand(t, "  '*': {keys: [app.pub]}\n", map[string]cosigned.Signer{"app.pub": key})
	if _, err := once(); err != nil {
		t.Fatal(err)
	}
	if again, err := once(); err != nil || !again.UpToDate {
		t.Fatalf("again: %+v, %v", again, err)
	}
	w.demand(t, "  '*': {keys: [app.pub]}\n", map[string]cosigned.Signer{"app.pub": cosigned.New(t)})
	if r, err := once(); err == nil {
		t.Errorf("with another key: %+v", r)
	}
}

func TestBuildWithoutReferrersRefusesDemandedSignatures(t *testing.T) {
	w := newWorld(t, "debian-12")
	key := cosigned.New(t)
	digest := w.push(t, "app:1", layer(1, 1000))
	w.attach(t, "app", cosigned.Tag(digest), key.Simple(t, cosigned.Payload(digest)))
	w.demand(t, "  '*': {keys: [app.pub]}\n", map[string]cosigned.Signer{"app.pub": key})
	settings, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(openCache(t), builder.Options{Config: settings, Targets: w.targets, WithoutReferrers: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Build(t.Context(), addOn(t, "app", "image app registry.example.io/app:1\n"), t.TempDir()); err == nil || !strings.Contains(err.Error(), "build without --without-referrers") {
		t.Errorf("got %v", err)
	}
}

// TestSignaturesSurviveBundleAndPush takes a signed image into a package and a bundle, past the policy of a node, and into the registry of a site.
// Another build takes it from there by the same policy.
func TestSignaturesSurviveBundleAndPush(t *testing.T) {
	w := newWorld(t, "debian-12")
	key := cosigned.New(t)
	digest := w.push(t, "app:1", layer(1, 1000))
	w.attach(t, "app", cosigned.Tag(digest), key.Simple(t, cosigned.Payload(digest)))
	w.attach(t, "app", "", cosigned.Referrer(t, key.Bundle(t, cosigned.Statement(digest, cosign.SignPredicate)), w.descriptor(t, "app", digest)))
	const policy = "  registry.example.io: {keys: [app.pub]}\n"
	w.demand(t, policy, map[string]cosigned.Signer{"app.pub": key})
	dir := addOn(t, "app", "image app registry.example.io/app:1\n")
	a := bundled(t, build(t, w.builder(t, openCache(t), 4), dir).Path)

	node := filepath.Join(filepath.Dir(w.config), "signatures.yaml")
	writeFile(t, node, "signatures:\n"+policy)
	if err := bundlepolicy.CheckImages(a, node); err != nil {
		t.Errorf("on the node: %v", err)
	}

	site := realregistry.Start(t)
	target, err := registry.ParseTarget("oci://"+site+"/mirror", false)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := registry.Prepare(t.Context(), a, registry.Options{Target: target})
	if err == nil {
		_, err = plan.Run(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	beyond := *w
	beyond.config = filepath.Join(filepath.Dir(w.config), "site.yaml")
	writeFile(t, beyond.config, strings.Replace(readFile(t, w.config), w.registry+"/mirrored", site+"/mirror/registry.example.io", 1))
	again := build(t, beyond.builder(t, openCache(t), 4), dir)
	opened, err := bundle.Open(again.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	verdicts, err := (cosign.Policy{}).JudgeArchive(opened, nil)
	if err != nil || len(verdicts) != 1 || !slices.Equal(slices.Sorted(slices.Values(verdicts[0].Attached)), []string{"cosign signature", "sigstore bundle"}) {
		t.Errorf("%+v, %v", verdicts, err)
	}
}

// bundled makes a bundle of a package.
func bundled(t *testing.T, packed string) *bundle.Archive {
	t.Helper()
	installer, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: test}\nspec:\n  app: {version: '1.0'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(filepath.Dir(packed))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "sealift")
	writeFile(t, program, "#!/bin/sh\n")
	member, err := assemble.ProgramMember(t.Context(), bundle.BinaryName, program, "")
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	plan, err := assemble.Prepare(t.Context(), assemble.Request{Installer: installer, Packages: packages.Source{Store: s}, Programs: []assemble.Program{{Platform: builder.DefaultPlatform, Sealift: member}}, Commands: []string{"install"}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	var whole bytes.Buffer
	if err := plan.Write(t.Context(), &whole); err != nil {
		t.Fatal(err)
	}
	a, err := bundle.NewArchive(bytes.NewReader(whole.Bytes()), int64(whole.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestBaseImagesAreNamedThatPolicyWouldDemand uses a base image that nobody signed. Its package does not carry it, so nothing verifies it.
func TestBaseImagesAreNamedThatPolicyWouldDemand(t *testing.T) {
	w := newWorld(t, "debian-12")
	w.push(t, "base:9", layer(1, 1000))
	w.demand(t, "  registry.example.io: {keys: [app.pub]}\n", map[string]cosigned.Signer{"app.pub": cosigned.New(t)})
	repository := t.TempDir()
	dir := filepath.Join(repository, "addons", "app", "1.0")
	writeFile(t, filepath.Join(dir, "Manifest"), "dockerout debian-12 addons/app/1.0/Dockerfile 1.0\n")
	writeFile(t, filepath.Join(dir, "install.sh"), "# nothing\n")
	writeFile(t, filepath.Join(dir, "Dockerfile"), "FROM registry.example.io/base:9\nCMD cp /release /out\n")
	locked := lockAddOn(t, w.builder(t, openCache(t), 2), dir, builder.LockMissing)
	if !slices.ContainsFunc(locked.Warnings, func(f diag.Finding) bool {
		return strings.Contains(f.Error(), "base image registry.example.io/base:9: "+w.config+" demands its signature")
	}) {
		t.Errorf("warnings are %v", locked.Warnings)
	}
}
