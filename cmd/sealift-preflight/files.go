package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/replicatedhq/troubleshoot/pkg/types"
)

// read returns one file to an analyzer.
func (c collected) read(file string) ([]byte, error) {
	if data, ok := c[file]; ok {
		return data, nil
	}
	return nil, &types.NotFoundError{Name: file}
}

// find returns several: by a name prefix or a pattern.
func (c collected) find(pattern string, except []string) (map[string][]byte, error) {
	matching := map[string][]byte{}
	for file, data := range c {
		if (strings.HasPrefix(file, pattern) || matches(pattern, file)) && !anyMatches(except, file) {
			matching[file] = data
		}
	}
	if len(matching) == 0 {
		return nil, fmt.Errorf("nothing was collected as %s", pattern)
	}
	return matching, nil
}

func matches(pattern, file string) bool {
	ok, err := path.Match(pattern, file)
	return err == nil && ok
}

func anyMatches(patterns []string, file string) bool {
	for _, p := range patterns {
		if matches(p, file) {
			return true
		}
	}
	return false
}
