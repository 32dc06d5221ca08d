package encryption

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func made(t *testing.T, h Host) Config {
	t.Helper()
	fixture.Unapproved(t, fips.Secrets)
	if err := h.Make(); err != nil {
		t.Fatal(err)
	}
	c, ok, err := h.Read()
	if err != nil || !ok {
		t.Fatalf("the file was not made: %v", err)
	}
	return c
}

func encoded(t *testing.T, c Config) []byte {
	t.Helper()
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestKeysAreMadeOnce also checks that they belong to root.
func TestKeysAreMadeOnce(t *testing.T) {
	t.Parallel()
	h := Host{files.Host{Rootfs: t.TempDir()}}
	first := made(t, h)
	if again := made(t, h); !slices.Equal(again.Keys, first.Keys) || len(first.Keys) != 1 || first.PlainFirst {
		t.Errorf("first %v, then %v", first, again)
	}
	if other := made(t, Host{files.Host{Rootfs: t.TempDir()}}); other.Keys[0] == first.Keys[0] {
		t.Error("two clusters have the same key")
	}
	info, err := os.Stat(h.Path(cluster.EncryptionFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	// the loss of power emptied it before anything was encrypted
	if err := os.WriteFile(h.Path(cluster.EncryptionFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	made(t, h)
}

func TestControlPlaneKeepsCurrentKey(t *testing.T) {
	t.Parallel()
	h := Host{files.Host{Rootfs: t.TempDir()}}
	own := made(t, h)
	more := Config{Keys: []Key{NewKey(own), own.Keys[0]}}
	if err := h.Import(encoded(t, Config{Keys: []Key{NewKey(own)}})); err == nil || !strings.Contains(err.Error(), own.Keys[0].Name) {
		t.Errorf("a file without the key that encrypts is taken: %v", err)
	}
	if err := h.Import(encoded(t, more)); err != nil {
		t.Fatal(err)
	}
	if c, _, err := h.Read(); err != nil || !slices.Equal(c.Keys, more.Keys) || c.Newest() != more.Keys[0] || c.Newest().Number() != 2 {
		t.Errorf("it has %v, %v", c, err)
	}
}

// TestMergedKeysReadBoth also checks that writing continues with the previous key.
func TestMergedKeysReadBoth(t *testing.T) {
	t.Parallel()
	const foreign = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n" +
		"  - aescbc: {keys: [{name: k, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}\n  - identity: {}\n"
	now := Config{Keys: []Key{NewKey(Config{})}}
	was := Config{Keys: []Key{NewKey(Config{})}}
	merged, changed, err := Merge(encoded(t, now), encoded(t, was))
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	c, err := Parse(merged)
	if err != nil || !slices.Equal(c.Keys, []Key{now.Keys[0], was.Keys[0]}) || c.PlainFirst {
		t.Errorf("it is %v, %v", c, err)
	}
	if _, changed, err := Merge(merged, encoded(t, was)); err != nil || changed {
		t.Errorf("keys that are there are added again: %v", err)
	}
	merged, changed, err = Merge(encoded(t, now), []byte(foreign))
	if err != nil || !changed || strings.Index(string(merged), "aescbc") > strings.Index(string(merged), "identity") {
		t.Errorf("with a provider that Sealift does not use: %v\n%s", err, merged)
	}
	if _, err := Parse(merged); err == nil || !strings.Contains(err.Error(), "not one that Sealift made") {
		t.Errorf("it is taken for one of Sealift: %v", err)
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	t.Parallel()
	good := string(encoded(t, Config{Keys: []Key{NewKey(Config{})}}))
	for name, text := range map[string]string{
		"nothing":           "",
		"no YAML":           "{",
		"another kind":      strings.Replace(good, "kind: EncryptionConfiguration", "kind: Pod", 1),
		"other objects":     strings.Replace(good, "- secrets", "- configmaps", 1),
		"a short key":       good[:strings.Index(good, "secret: ")] + "secret: YWJj\n",
		"an unknown field":  good + "more: true\n",
		"no key":            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{identity: {}}]}]\n",
		"identity and more": strings.Replace(good, "- identity: {}", "- identity: {}\n    aescbc: {keys: []}", 1),
	} {
		if c, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is taken: %v", name, c)
		}
	}
}

func FuzzParse(f *testing.F) {
	text, err := Config{Keys: []Key{NewKey(Config{})}, PlainFirst: true}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("kind: EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{secretbox: null}, {identity: {}}]}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, _ = Merge(text, text)
		c, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(encoded(t, c))
		if err != nil || !slices.Equal(again.Keys, c.Keys) || again.PlainFirst != c.PlainFirst {
			t.Errorf("it reads %v, and writes %v: %v", c, again, err)
		}
	})
}

// TestFIPSModeMakesNoKeys also checks that a cluster keeps the keys that it has.
func TestFIPSModeMakesNoKeys(t *testing.T) {
	fixture.InFIPSMode(t, func(t *testing.T) {
		h := Host{files.Host{Rootfs: t.TempDir()}}
		if err := h.Make(); err == nil || !strings.HasPrefix(err.Error(), "secretbox") {
			t.Errorf("got %v", err)
		}
		if err := h.Write(Config{Keys: []Key{NewKey(Config{})}}); err != nil {
			t.Fatal(err)
		}
		if err := h.Make(); err != nil {
			t.Errorf("with keys: %v", err)
		}
	})
}
