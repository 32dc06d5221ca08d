package objects

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/store"
)

// Load describes the packages: part-0, part-1, … of version 1.0.
type Load struct {
	Packages int
	Own      int // bytes that only this package has
	Shared   int // bytes that every package has
}

// Fill puts the packages into a store. They contain noise, which is the same each time.
func Fill(ctx context.Context, s store.Store, l Load) error {
	shared := randomBytes(0, l.Shared)
	for n := range l.Packages {
		name := fmt.Sprintf("part-%d", n)
		dir := bundle.AddOnDir(name, "1.0")
		p := bundle.Package{Name: name, Version: "1.0", Platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}, Files: []bundle.File{
			bundle.BytesFile(dir+"/Manifest", 0o644, nil), bundle.BytesFile(dir+"/install.sh", 0o644, []byte(name+"() { :; }\n")),
			bundle.BytesFile(dir+"/shared", 0o644, shared), bundle.BytesFile(dir+"/own", 0o644, randomBytes(n+1, l.Own)),
		}}
		var packed bytes.Buffer
		if _, err := bundle.WritePackage(ctx, &packed, p, bundle.WriteOptions{}); err != nil {
			return err
		}
		key, err := store.PackageKey(name, "1.0")
		if err != nil {
			return err
		}
		if _, err := s.Put(ctx, key, store.Bytes(packed.Bytes())); err != nil {
			return err
		}
	}
	return nil
}

// randomBytes is incompressible and looks like compressed data.
func randomBytes(seed, n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data)
	copy(data, []byte{0x1f, 0x8b})
	return data
}

// Installer returns an Installer of the first n packages.
func (l Load) Installer(packages int) string {
	var text strings.Builder
	text.WriteString("apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: depot}\nspec:\n")
	for n := range packages {
		fmt.Fprintf(&text, "  part-%d: {version: '1.0'}\n", n)
	}
	return text.String()
}
