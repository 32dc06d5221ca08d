package manifest

import (
	"fmt"
	"maps"
	"slices"
)

// Change is one difference in what two versions of something name, such as two Manifests or two locks.
type Change struct {
	What string `json:"what"`          // such as "image etcd" in a Manifest, "image registry.k8s.io/pause:3.10" in a lock
	Was  string `json:"was,omitempty"` // empty when it is new
	Now  string `json:"now,omitempty"` // empty when it is needed no more
}

// String is the change as a line of text.
func (c Change) String() string {
	switch {
	case c.Was == "":
		return fmt.Sprintf("%s: new, %s", c.What, c.Now)
	case c.Now == "":
		return fmt.Sprintf("%s: no longer needed, was %s", c.What, c.Was)
	}
	return fmt.Sprintf("%s: %s, was %s", c.What, c.Now, c.Was)
}

// Changes compares descriptions by name: what is new or has another description in the order of the names, and then what is gone. what is put
// before each name.
func Changes(what string, was, now map[string]string) []Change {
	list := []Change{}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was[name] != now[name] {
			list = append(list, Change{What: what + name, Was: was[name], Now: now[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, kept := now[name]; !kept {
			list = append(list, Change{What: what + name, Was: was[name]})
		}
	}
	return list
}
