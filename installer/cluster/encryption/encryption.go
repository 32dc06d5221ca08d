// Package encryption keeps Secrets encrypted in etcd. It makes the file with the keys of the API servers, gives it to control
// planes, and rotates the keys.
//
// The provider is secretbox. Of those without a key management service, Kubernetes' documentation calls only it strong without
// a condition: aescbc is open to padding oracles, and a key of aesgcm wears out after 200,000 writes.
package encryption

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/regularfile"
)

// keyBytes is the length of a key of secretbox.
const keyBytes = 32

// secrets are the only objects that are encrypted.
const secrets = "secrets"

// Key encrypts Secrets. Its name is in front of each value in etcd.
type Key struct {
	Name   string
	Secret string // base64
}

// Config configures how an API server encrypts Secrets. All of its keys read. Values without encryption are always read.
type Config struct {
	Keys []Key // the first one writes
	// PlainFirst lets the API server write without encryption: not every server of the cluster can read the keys yet.
	PlainFirst bool
}

// Parse reads a file that Sealift made.
func Parse(text []byte) (c Config, err error) {
	all, err := decode(text)
	if err != nil {
		return Config{}, err
	}
	if len(all.Resources) != 1 || !slices.Equal(all.Resources[0].Resources, []string{secrets}) {
		return Config{}, errors.New("it is not one that Sealift made: it must encrypt secrets and nothing else")
	}
	providers := all.Resources[0].Providers
	for n, p := range providers {
		switch {
		case p == apiserverv1.ProviderConfiguration{Secretbox: p.Secretbox} && p.Secretbox != nil:
			for _, k := range p.Secretbox.Keys {
				c.Keys = append(c.Keys, Key{k.Name, k.Secret})
			}
		case p == apiserverv1.ProviderConfiguration{Identity: p.Identity} && p.Identity != nil && (n == 0 || n == len(providers)-1):
			c.PlainFirst = n == 0
		default:
			return Config{}, errors.New("it is not one that Sealift made: it must have secretbox and identity, and no other provider")
		}
	}
	return c, c.check()
}

func decode(text []byte) (all apiserverv1.EncryptionConfiguration, err error) {
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return all, err
	}
	if all.Kind != "EncryptionConfiguration" {
		return all, fmt.Errorf("it is of kind %q instead of EncryptionConfiguration", all.Kind)
	}
	return all, nil
}

func (c Config) check() error {
	names := map[string]bool{}
	for _, k := range c.Keys {
		secret, err := base64.StdEncoding.DecodeString(k.Secret)
		if err != nil || len(secret) != keyBytes || k.Name == "" || names[k.Name] {
			return fmt.Errorf("key %q must have a unique name and %d bytes in base64", k.Name, keyBytes)
		}
		names[k.Name] = true
	}
	if len(c.Keys) == 0 {
		return errors.New("it has no key")
	}
	return nil
}

// Encode writes the file that an API server reads. The same keys give the same bytes.
func (c Config) Encode() ([]byte, error) {
	box := &apiserverv1.SecretboxConfiguration{}
	for _, k := range c.Keys {
		box.Keys = append(box.Keys, apiserverv1.Key{Name: k.Name, Secret: k.Secret})
	}
	providers := []apiserverv1.ProviderConfiguration{{Secretbox: box}, {Identity: &apiserverv1.IdentityConfiguration{}}}
	if c.PlainFirst {
		slices.Reverse(providers)
	}
	return yaml.Marshal(apiserverv1.EncryptionConfiguration{
		TypeMeta:  metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "EncryptionConfiguration"},
		Resources: []apiserverv1.ResourceConfiguration{{Resources: []string{secrets}, Providers: providers}},
	})
}

// Number is the number of a key in the order of creation: 2 for key-2-1f3a.
func (k Key) Number() int {
	text, _, _ := strings.Cut(strings.TrimPrefix(k.Name, "key-"), "-")
	n, _ := strconv.Atoi(text)
	return n
}

// Newest returns the key that was made last.
func (c Config) Newest() Key {
	return slices.MaxFunc(c.Keys, func(a, b Key) int { return cmp.Compare(a.Number(), b.Number()) })
}

// NewKey creates the key that follows those of a configuration. Keys that two hosts make have different names.
func NewKey(after Config) Key {
	number := 1
	if len(after.Keys) > 0 {
		number = after.Newest().Number() + 1
	}
	secret, distinct := make([]byte, keyBytes), make([]byte, 4)
	_, _ = rand.Read(secret) // it never fails
	_, _ = rand.Read(distinct)
	return Key{Name: fmt.Sprintf("key-%d-%s", number, hex.EncodeToString(distinct)), Secret: base64.StdEncoding.EncodeToString(secret)}
}

// Host is a node of a cluster, by its files.
type Host struct{ files.Host }

// Read returns the configuration of this host; ok reports whether there is one.
func (h Host) Read() (c Config, ok bool, err error) {
	text, err := regularfile.ReadFile(h.Path(cluster.EncryptionFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return Config{}, false, nil
	}
	if err == nil {
		c, err = Parse(text)
	}
	if err != nil {
		return Config{}, false, fmt.Errorf("%s: %w", cluster.EncryptionFile, err)
	}
	return c, true, nil
}

// Write replaces the configuration of this host.
func (h Host) Write(c Config) error {
	text, err := c.Encode()
	if err != nil {
		return err
	}
	return h.writeText(text)
}

func (h Host) writeText(text []byte) error {
	path := h.Path(cluster.EncryptionFile)
	if err := files.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return files.WriteMode(path, 0o600, text)
}

// Make makes the first key of a cluster, unless the host has keys. In FIPS mode it refuses.
func (h Host) Make() error {
	_, there, err := h.Read()
	if err != nil || there {
		return err
	}
	if err := fips.Secrets.Refuse(); err != nil {
		return err
	}
	return h.Write(Config{Keys: []Key{NewKey(Config{})}})
}

// Import writes the configuration of another control plane, which must have the key that this host writes with.
func (h Host) Import(text []byte) error {
	c, err := Parse(text)
	if err != nil {
		return fmt.Errorf("the keys for Secrets from the cluster's control plane: %w", err)
	}
	own, there, err := h.Read()
	if err != nil {
		return err
	}
	if there && !own.PlainFirst && !slices.Contains(c.Keys, own.Keys[0]) {
		return fmt.Errorf("the new keys for Secrets lack %s, with which the API server of this host encrypts", own.Keys[0].Name)
	}
	return h.Write(c)
}

// Merge returns a configuration that also reads what another one reads. The first one keeps writing. Either may be one that
// Sealift did not make. changed reports whether the first one lacked anything.
func Merge(own, other []byte) (merged []byte, changed bool, err error) {
	all, err := decode(own)
	if err != nil {
		return nil, false, err
	}
	more, err := decode(other)
	if err != nil {
		return nil, false, err
	}
	for _, from := range more.Resources {
		at := slices.IndexFunc(all.Resources, func(r apiserverv1.ResourceConfiguration) bool { return slices.Equal(r.Resources, from.Resources) })
		if at < 0 {
			all.Resources, changed = append(all.Resources, from), true
			continue
		}
		for _, p := range from.Providers {
			if reads(all.Resources[at].Providers, p) {
				continue
			}
			// identity is last, because it accepts every value unchanged
			to := &all.Resources[at].Providers
			end := len(*to)
			if end > 0 && (*to)[end-1].Identity != nil {
				end--
			}
			*to, changed = slices.Insert(*to, end, p), true
		}
	}
	merged, err = yaml.Marshal(all)
	return merged, changed, err
}

// reads reports whether providers read all that another one reads.
func reads(providers []apiserverv1.ProviderConfiguration, one apiserverv1.ProviderConfiguration) bool {
	if one.Identity != nil {
		return slices.ContainsFunc(providers, func(p apiserverv1.ProviderConfiguration) bool { return p.Identity != nil })
	}
	if one.Secretbox != nil {
		var keys []apiserverv1.Key
		for _, p := range providers {
			if p.Secretbox != nil {
				keys = append(keys, p.Secretbox.Keys...)
			}
		}
		return !slices.ContainsFunc(one.Secretbox.Keys, func(k apiserverv1.Key) bool { return !slices.Contains(keys, k) })
	}
	text, err := yaml.Marshal(one)
	return err == nil && slices.ContainsFunc(providers, func(p apiserverv1.ProviderConfiguration) bool {
		own, err := yaml.Marshal(p)
		return err == nil && string(own) == string(text)
	})
}
