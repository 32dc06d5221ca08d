package main

import (
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sealift/sealift/operator/hook"
)

//go:embed operator.lock
var operatorLock string

// programs is the folder of programs in the image.
const programs = "usr/local/bin/"

// operatorOptions configure the image of the operator.
type operatorOptions struct {
	options

	binary string   // sealift-controller
	cache  string   // of the packages that the lock names
	added  []string // programs, as NAME=FILE
	debs   []string // further packages, each a layer
	layers []string // folders, as DIR=PATH, each a layer
}

func (o *operatorOptions) flags() {
	list := func(target *[]string) func(string) error {
		return func(text string) error {
			*target = append(*target, text)
			return nil
		}
	}
	flag.StringVar(&o.binary, "operator", "", "make the operator's image instead, with this sealift-controller; a static one")
	flag.StringVar(&o.cache, "packages", "bin/packages", "folder of the Debian packages; those that it lacks are downloaded")
	flag.Func("program", "with -operator: add a program as `NAME=FILE`, such as kubectl=bin/kubectl; repeat it", list(&o.added))
	flag.Func("deb", "with -operator: add the files of a Debian package as a layer; repeat it", list(&o.debs))
	flag.Func("layer", "with -operator: add a folder as a layer, as `DIR=PATH`, such as hooks=/hooks; repeat it", list(&o.layers))
}

// make writes the image and returns its digest.
func (o operatorOptions) make() (v1.Hash, error) {
	image, err := o.image()
	if err != nil {
		return v1.Hash{}, err
	}
	return o.write(image)
}

func (o operatorOptions) image() (v1.Image, error) {
	packages, err := fetchAll(operatorLock, o.cache)
	if err != nil {
		return nil, err
	}
	system, err := unpack(packages...)
	if err != nil {
		return nil, err
	}
	own, err := o.own()
	if err != nil {
		return nil, err
	}
	layers := [][]file{slices.Concat(base(), system), own}
	for _, name := range o.debs {
		files, err := unpack(name)
		if err != nil {
			return nil, err
		}
		layers = append(layers, files)
	}
	for _, text := range o.layers {
		dir, at, ok := strings.Cut(text, "=")
		if !ok || !path.IsAbs(at) {
			return nil, fmt.Errorf("-layer %s: say DIR=PATH, such as hooks=/hooks", text)
		}
		files, err := folder(dir, at)
		if err != nil {
			return nil, err
		}
		layers = append(layers, files)
	}
	return o.compose(layers, v1.Config{
		Entrypoint: []string{"/" + programs + "shell-operator"}, Cmd: []string{"start"}, User: user, WorkingDir: "/",
		Env:          []string{"PATH=/usr/local/bin:/usr/bin:/usr/sbin"},
		ExposedPorts: map[string]struct{}{"9115/tcp": {}},
		Labels:       map[string]string{"org.opencontainers.image.title": "sealift-operator", "org.opencontainers.image.licenses": "Apache-2.0"},
	})
}

// base are the files that packages take for granted, and the folders of the operator.
func base() []file {
	files := []file{
		{name: "bin", link: "usr/bin"}, {name: "lib", link: "usr/lib"}, {name: "lib64", link: "usr/lib64"}, {name: "sbin", link: "usr/sbin"},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0::/:/bin/bash\nsealift:x:65532:65532::/:/sbin/nologin\n")},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nsealift:x:65532:\n")},
		{name: "var/run", link: "/run"},
	}
	for _, dir := range []string{"hooks/", "global-hooks/", "modules/"} {
		files = append(files, file{name: dir, mode: 0o755})
	}
	for _, dir := range []string{"tmp/", "run/shell-operator/", "run/addon-operator/"} { // the operator writes there
		files = append(files, file{name: dir, mode: 0o1777})
	}
	return files
}

// own are the operator under its names, the library of hooks, certificates, and programs on request.
func (o operatorOptions) own() ([]file, error) {
	binary, err := os.ReadFile(o.binary)
	if err != nil {
		return nil, fmt.Errorf("the operator: %w; 'make build' makes it", err)
	}
	certificates, err := os.ReadFile(o.certificates)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w; on Debian the package ca-certificates has them", err)
	}
	files := []file{
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificates},
		{name: programs + "sealift-controller", mode: 0o755, data: binary},
		{name: programs + "shell-operator", link: "sealift-controller"}, {name: programs + "addon-operator", link: "sealift-controller"},
		// where Flant's images have them, for the commands and entry points that name them
		{name: "shell-operator", link: programs + "sealift-controller"}, {name: "addon-operator", link: programs + "sealift-controller"},
	}
	library, err := shellLibrary()
	if err != nil {
		return nil, err
	}
	files = append(files, library...)
	for _, text := range o.added {
		name, from, ok := strings.Cut(text, "=")
		if !ok || name != path.Base(name) {
			return nil, fmt.Errorf("-program %s: say NAME=FILE, such as kubectl=bin/kubectl", text)
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
		files = append(files, file{name: programs + name, mode: 0o755, data: data})
	}
	return files, nil
}

// shellLibrary is /shell_lib.sh and /frameworks/shell, where hooks expect them.
func shellLibrary() (files []file, err error) {
	library := hook.ShellLibrary()
	err = fs.WalkDir(library, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			files = append(files, file{name: name + "/", mode: 0o755})
			return nil
		}
		data, err := fs.ReadFile(library, name)
		files = append(files, file{name: name, mode: 0o644, data: data})
		return err
	})
	return files, err
}

// folder reads a folder to be placed at a path of the image, with its modes and links.
func folder(dir, at string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f := file{name: strings.TrimPrefix(path.Join(at, filepath.ToSlash(below)), "/"), mode: int64(info.Mode().Perm())}
		switch {
		case entry.IsDir():
			f.name += "/"
		case info.Mode()&fs.ModeSymlink != 0:
			f.link, err = os.Readlink(name)
		case info.Mode().IsRegular():
			f.data, err = os.ReadFile(name)
		default:
			err = fmt.Errorf("%s is not a regular file", name)
		}
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", dir, err)
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files, nil
}
