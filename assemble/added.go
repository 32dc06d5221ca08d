package assemble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/spec"
)

// operator returns the add-on that runs modules if an add-on of the bundle is a module and none runs them. The store's newest
// version is used.
func (r Request) operator(ctx context.Context, parts []part) (wanted []spec.AddOn, err error) {
	var modules []string
	for _, one := range parts {
		if slices.Contains(one.meta.Provides, catalog.ModuleOperator) {
			return nil, nil
		}
		if one.meta.Module {
			modules = append(modules, one.meta.Name)
		}
	}
	if len(modules) == 0 {
		return nil, nil
	}
	wanted, err = r.Packages.Resolve(ctx, []spec.AddOn{{Name: catalog.OperatorAddOn, Key: catalog.OperatorAddOn, Version: catalog.Latest}})
	if unknown := (*packages.UnknownError)(nil); errors.As(err, &unknown) {
		return nil, &packages.UnknownError{Message: fmt.Sprintf("%s: modules need an operator, and the store has no package %s: build and publish the add-on addons/%[2]s of Sealift's catalogue",
			strings.Join(modules, ", "), catalog.OperatorAddOn)}
	}
	return wanted, err
}

// utility returns the add-on with kURL's utility image if an add-on needs the image and no package contains it. The store's
// newest version is used.
func (r Request) utility(ctx context.Context, archives []*bundle.Archive) (wanted []spec.AddOn, err error) {
	var needy []string
	for _, a := range archives {
		info := a.Index.Packages[0]
		if slices.ContainsFunc(info.Images, func(i bundle.Image) bool { return catalog.IsUtilityImage(i.Ref) }) {
			return nil, nil
		}
		hooks, err := a.ReadFile(info.Dir()+"/install.sh", maxHooks)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if catalog.NeedsUtilityImage(hooks) {
			needy = append(needy, info.Name)
		}
	}
	if len(needy) == 0 {
		return nil, nil
	}
	wanted, err = r.Packages.Resolve(ctx, []spec.AddOn{{Name: catalog.UtilityAddOn, Key: catalog.UtilityAddOn, Version: catalog.Latest}})
	if unknown := (*packages.UnknownError)(nil); errors.As(err, &unknown) {
		return nil, &packages.UnknownError{Message: fmt.Sprintf("%s needs kURL's image %s, and the store has no package with it: give kURL's bundle or its common.tar.gz to 'sealift import', and publish the package %[2]s that it makes",
			strings.Join(needy, ", "), catalog.UtilityAddOn)}
	}
	return wanted, err
}
