package report

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// ReadCells reads the results.json of an earlier report.
func ReadCells(path string) ([]Cell, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read earlier results: %w", err)
	}
	var list struct{ Cells []Cell }
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read earlier results in %s: %w; name the results.json of a report", path, err)
	}
	return list.Cells, nil
}

// Broken reports whether a cell did not pass.
func (c Cell) Broken() bool { return c.Verdict == Failed || c.Verdict == Flaky }

// NewlyBroken returns the broken cells that were not broken before. A new test counts as one that passed.
func NewlyBroken(now, before []Cell) (broken []Cell) {
	for _, c := range now {
		was := slices.ContainsFunc(before, func(old Cell) bool { return old.Test == c.Test && old.System == c.System && old.Broken() })
		if c.Broken() && !was {
			broken = append(broken, c)
		}
	}
	return broken
}
