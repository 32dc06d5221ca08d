// Package usualhost makes limits in tests those of a usual host, whatever the machine of the tests has to do: import it for its effect, where a
// test compares such a limit. It changes nothing else.
package usualhost

import "github.com/sealift/sealift/installer/host/speed"

func init() { speed.Slowness = func() float64 { return 1 } }
