package assemble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
