// Command release makes the files of a release other than programs and packages: release.sh calls it.
//
//	release sbom VERSION OUT PROGRAM...    a bill of materials, SPDX 2.3 in JSON, from the build information in each program
//	release sign KEY FILE                  FILE.sig, as 'cosign sign-blob' writes it; SEALIFT_KEY_PASSPHRASE has the key's passphrase
package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 3 && args[0] == "sbom":
		return writeSBOM(args[1], args[2], args[3:])
	case len(args) == 3 && args[0] == "sign":
		return sign(args[1], args[2])
	}
	return errors.New("the usage is: release sbom VERSION OUT PROGRAM..., or: release sign KEY FILE")
}

// writeSBOM describes the files of programs.
func writeSBOM(version, out string, programs []string) error {
	var all []sbom.Program
	for _, name := range programs {
		p, err := describe(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
	}
	data, err := sbom.Release(version, all)
	if err != nil {
		return err
	}
	return atomicfile.Write(out, data)
}

func describe(name string) (sbom.Program, error) {
	info, err := buildinfo.ReadFile(name)
	if err != nil {
		return sbom.Program{}, err
	}
	f, err := os.Open(name)
	if err != nil {
		return sbom.Program{}, err
	}
	defer f.Close()
	digest, _, err := sha256hex.Read(f)
	if err != nil {
		return sbom.Program{}, err
	}
	p := sbom.Program{Name: filepath.Base(name), SHA256: digest, Go: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "GOARCH" {
			p.Arch = s.Value
		}
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p.Modules = append(p.Modules, sbom.Module{Path: m.Path, Version: m.Version})
	}
	return p, nil
}

// sign writes the signature of a file beside it.
func sign(keyFile, name string) error {
	key, err := (&app.App{Err: os.Stderr}).SigningKey(keyFile)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	signature, err := key.Sign(data)
	if err != nil {
		return err
	}
	return atomicfile.Write(name+".sig", signature)
}
