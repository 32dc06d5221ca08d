package delta_test

import (
	"errors"
	"io"
	"path"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
)

func TestSpoolMakesOnePatchAtATime(t *testing.T) {
	first := packageOf(t, 0)
	e := earlier(t, opened(t, bundleOf(t, bundle.Bundle{Packages: []*bundle.Archive{first}})))
	e.Spool = delta.NewSpool(t.TempDir())
	makePatches := func(p *bundle.Archive) error {
		set, err := e.Make(t.Context(), []*bundle.Archive{p}, nil)
		if err == nil {
			err = set.Close()
		}
		return err
	}
	second, begun, resume := packageOf(t, 1), make(chan struct{}), make(chan struct{})
	index, signature := second.Raw()
	slow, err := bundle.NewUnpacked(index, signature, func(e bundle.Entry) (io.ReadCloser, error) {
		if path.Base(e.Path) == "program" {
			close(begun)
			<-resume
		}
		return second.OpenEntry(e.Path)
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- makePatches(slow) }()
	<-begun
	if err := makePatches(packageOf(t, 2)); !errors.Is(err, delta.ErrBusy) {
		t.Errorf("beside another patch: %v", err)
	}
	close(resume)
	if err := errors.Join(<-ended, makePatches(packageOf(t, 2))); err != nil {
		t.Error(err)
	}
}
