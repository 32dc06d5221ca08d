package main

import (
	"context"
	"errors"
	"fmt"
)

// manyJoins is how many hosts join at once.
const manyJoins = 10

// joins compares hosts that join the demo's cluster at once with one that joins alone.
func (b *bench) joins(ctx context.Context) (err error) {
	usb, err := b.usb(ctx, "usb-joins", installerOf(demoAddOns()...), demoAddOns())
	if err != nil {
		return err
	}
	c, err := newCluster(ctx, usb)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.remove(ctx, c.all)) }()
	counts, seconds := [...]int{1, manyJoins}, [2][]float64{}
	for range b.rounds {
		for i, n := range counts {
			hosts, err := c.boot(ctx, n)
			if err != nil {
				return err
			}
			took, err := c.joinAll(ctx, hosts)
			if err != nil {
				return err
			}
			seconds[i] = append(seconds[i], took)
			if err := c.leave(ctx, hosts); err != nil {
				return err
			}
		}
	}
	t := newTable("\tuntil all are ready s\ttimes one's wall\t")
	for i, n := range counts {
		fmt.Fprintf(t, "%d joining\t%.1f\t%.2f\t\n", n, middle(seconds[i]), middle(seconds[i])/middle(seconds[0]))
	}
	b.aim(fmt.Sprintf("joins: %d hosts at once, wall", manyJoins), middle(seconds[1])/middle(seconds[0]), 1.5, "x")
	return t.Flush()
}
