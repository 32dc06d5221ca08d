package bundle_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/sealift/sealift/bundle"
)

// archive writes the package of an add-on with one file.
func archive(name string) *bytes.Reader {
	var written bytes.Buffer
	p := bundle.Package{Name: name, Version: "1.0.0", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile("addons/"+name+"/1.0.0/install.sh", 0o644, []byte(name+"() { echo "+name+"; }\n")),
	}}
	if _, err := bundle.WritePackage(context.Background(), &written, p, bundle.WriteOptions{}); err != nil {
		panic(err)
	}
	return bytes.NewReader(written.Bytes())
}

func ExampleWritePackage() {
	p := bundle.Package{Name: "hello", Version: "1.0.0", Files: []bundle.File{
		bundle.BytesFile("addons/hello/1.0.0/install.sh", 0o644, []byte("hello() { echo hello; }\n")),
	}}
	var written bytes.Buffer
	index, err := bundle.WritePackage(context.Background(), &written, p, bundle.WriteOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range index.Entries {
		fmt.Println(e.Path, e.Size, e.SHA256[:12])
	}
	// Output:
	// addons/hello/1.0.0/install.sh 24 d6eb3eb1b601
}

func ExampleOpenPackage() {
	source := archive("hello")
	a, err := bundle.OpenPackage(source, source.Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := a.ReadFile("addons/hello/1.0.0/install.sh", 1<<20)
	fmt.Printf("%s%v\n", text, err)
	// Output:
	// hello() { echo hello; }
	// <nil>
}

func ExampleArchive_Verify() {
	source := archive("hello")
	a, err := bundle.OpenPackage(source, source.Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Signed(), a.Verify(context.Background()))
	// Output:
	// false <nil>
}

// An archive is a file system, for programs that read one.
func ExampleArchive_FS() {
	source := archive("hello")
	a, err := bundle.OpenPackage(source, source.Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := fs.Stat(a.FS(), "addons/hello/1.0.0/install.sh")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Name(), info.Size(), info.Mode())
	// Output:
	// install.sh 24 -rw-r--r--
}

// A layout knows the length of a bundle before any byte of a package is read.
func ExampleNewLayout() {
	var packages []*bundle.Archive
	var sources []io.ReaderAt
	for _, name := range []string{"hello", "world"} {
		source := archive(name)
		a, err := bundle.OpenPackage(source, source.Size())
		if err != nil {
			fmt.Println(err)
			return
		}
		packages, sources = append(packages, a), append(sources, source)
	}
	layout, err := bundle.NewLayout(bundle.Bundle{Packages: packages})
	if err != nil {
		fmt.Println(err)
		return
	}
	var written bytes.Buffer
	err = layout.Write(context.Background(), &written, sources)
	fmt.Println(int64(written.Len()) == layout.Size(), err)
	for _, p := range layout.Index.Packages {
		fmt.Println(p.Name, p.Version)
	}
	// Output:
	// true <nil>
	// hello 1.0.0
	// world 1.0.0
}
