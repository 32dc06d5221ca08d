package main

import "fmt"

// limits are the targets of a case. Zero is none.
type limits struct {
	wall, bytes float64 // multiples of the first case's
	seconds     float64
	peak        int64 // MiB
}

// target is what one case should reach, and what was measured.
type target struct {
	name           string
	measured, most float64
	unit           string
}

// aim notes a measured value that has a target.
func (b *bench) aim(name string, measured, most float64, unit string) {
	b.targets = append(b.targets, target{name, measured, most, unit})
}

func (b *bench) aimAtCase(title string, c benchCase, m, first measure) {
	name := title + ": " + c.name
	if c.wall > 0 {
		b.aim(name+", wall", m.wall/first.wall, c.wall, "x")
	}
	if c.bytes > 0 {
		b.aim(name+", bytes", float64(m.bytes)/float64(first.bytes), c.bytes, "x")
	}
	if c.seconds > 0 {
		b.aim(name+", wall", m.wall, c.seconds, "s")
	}
	if c.limits.peak > 0 {
		b.aim(name+", memory", float64(m.peak)/(1<<20), float64(c.limits.peak), "MiB")
	}
}

// printTargets prints all measured values that have a target. Multiples are of the reference in the same table.
func (b *bench) printTargets() error {
	if len(b.targets) == 0 {
		return nil
	}
	heading(fmt.Sprintf("targets, medians of %d", b.rounds))
	t := newTable("\tmeasured\ttarget\t")
	for _, one := range b.targets {
		fmt.Fprintf(t, "%s\t%.3g %s\tat most %.3g %s\t\n", one.name, one.measured, one.unit, one.most, one.unit)
	}
	return t.Flush()
}
