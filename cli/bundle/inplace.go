package bundle

import (
	"context"
	"errors"
	"os"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// InPlace returns a function that opens the bundle of an Installer without writing it: the bundle is read from the packages in the
// store. file is the name of the Installer in messages. One of the keys must have signed each package, if there are any.
func InPlace(a *app.App, nodes []string) func(ctx context.Context, file string, i *spec.Installer, stored store.Store, keys []signature.PublicKey) (*bundle.Archive, error) {
	c := commands{a, nodes}
	return func(ctx context.Context, file string, i *spec.Installer, stored store.Store, keys []signature.PublicKey) (*bundle.Archive, error) {
		self, err := os.Executable() // content for a node that installs itself
		if err != nil {
			return nil, err
		}
		cache, err := cacheFolder("")
		if err != nil {
			return nil, err
		}
		from := packagesOf(stored, cache)
		from.Signers = keys
		plan, err := c.prepare(ctx, i, from, bundleOptions{file: file, programs: programFlags{sealift: []string{self}, platforms: []string{hostPlatform}}}, "")
		if err != nil {
			return nil, err
		}
		reader, err := plan.Open(ctx)
		if err != nil {
			return nil, errors.Join(err, plan.Close())
		}
		return bundle.OpenSource(inPlace{reader, plan})
	}
}

// inPlace is the source of an unwritten bundle.
type inPlace struct {
	*assemble.Reader
	plan prepared
}

func (i inPlace) Size() int64 { return i.plan.Size() }

func (i inPlace) Close() error { return errors.Join(i.Reader.Close(), i.plan.Close()) }
