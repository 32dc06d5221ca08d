package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sealift/sealift/store"
)

// folder opens a store in a new folder.
func folder() (s store.Store, remove func()) {
	dir, err := os.MkdirTemp("", "store-")
	if err != nil {
		panic(err)
	}
	s, err = store.Open(dir)
	if err != nil {
		panic(err)
	}
	return s, func() { _ = os.RemoveAll(dir) }
}

func ExampleOpen() {
	s, remove := folder() // store.Open takes a folder, s3://bucket/prefix, or https://host/path
	defer remove()
	ctx := context.Background()
	if _, err := s.Put(ctx, "notes/hello.txt", store.Bytes([]byte("hello"))); err != nil {
		fmt.Println(err)
		return
	}
	object, err := s.Get(ctx, "notes/hello.txt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer object.Close()
	text, err := io.ReadAll(io.NewSectionReader(object, 0, object.Size()))
	fmt.Println(string(text), err)
	// Output:
	// hello <nil>
}

// Of two writers that read the same version, one wins.
func ExampleStore_swap() {
	s, remove := folder()
	defer remove()
	ctx := context.Background()
	first, err := s.Swap(ctx, "releases/current", []byte("1.0.0"), "")
	fmt.Println(err)
	_, err = s.Swap(ctx, "releases/current", []byte("1.1.0"), first)
	fmt.Println(err)
	_, err = s.Swap(ctx, "releases/current", []byte("1.2.0"), first)
	fmt.Println(errors.Is(err, store.ErrChanged))
	// Output:
	// <nil>
	// <nil>
	// true
}

func ExamplePackageKey() {
	fmt.Println(store.PackageKey("hello", "1.0.0"))
	_, err := store.PackageKey("../hello", "1.0.0")
	fmt.Println(err)
	// Output:
	// hello-1.0.0.tar.gz <nil>
	// the name and version of an add-on cannot contain a slash
}

func ExampleParseS3() {
	config, err := store.ParseS3("s3://packages/stable?region=eu-central-1", func(string) string { return "" })
	fmt.Println(config.Bucket, config.Prefix, config.Region, err)
	// Output:
	// packages stable/ eu-central-1 <nil>
}
