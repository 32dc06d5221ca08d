package node

import (
	"fmt"
	"strconv"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/host/network"
)

// addressQuestion asks which of several addresses is the node's. It is nil where nobody is asked.
func (a commands) addressQuestion(quiet bool) func(network.Choice) (network.Candidate, error) {
	if quiet || !a.CanAsk() {
		return nil
	}
	return func(c network.Choice) (network.Candidate, error) {
		all := append([]network.Candidate{c.Candidate}, c.Others...)
		fmt.Fprintln(a.Err, "Several addresses of this host could be the one by which other nodes reach it:")
		for n, one := range all {
			fmt.Fprintf(a.Err, "  %d  %s\n", n+1, one)
		}
		fmt.Fprintf(a.Err, "  (1: %s)\n", c.Why)
		answer := a.Ask(fmt.Sprintf("Which one? (1 to %d, Enter for 1)", len(all)))
		if answer == "" {
			return c.Candidate, nil
		}
		for n, one := range all {
			if answer == strconv.Itoa(n+1) || answer == one.Address.String() {
				return one, nil
			}
		}
		return network.Candidate{}, app.UsageError("%q is not one of the addresses; nothing was changed", answer)
	}
}
