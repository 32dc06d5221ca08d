package runtime_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
)

func TestExportedImageIsImported(t *testing.T) {
	const ref = "registry.example.org/pause:3.10.2"
	l := openLayout(t, archive(t, map[string]v1.Image{ref: image(t, 2), "registry.example.org/other:1": image(t, 1)}))
	var file bytes.Buffer
	if err := l.Export(t.Context(), ref, &file); err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := runtime.Connect(ctx, containerd.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if loaded, err := r.Import(ctx, io.Reader(plain)); err != nil || len(loaded) != 1 || loaded[0] != ref {
		t.Errorf("imported %v, %v", loaded, err)
	}
	if err := l.Export(t.Context(), "registry.example.org/none:1", io.Discard); err == nil || !strings.Contains(err.Error(), "no image registry.example.org/none:1") {
		t.Error(err)
	}
}
