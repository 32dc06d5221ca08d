package kind

import (
	"encoding/json"
	"maps"
	"slices"
)

// compare lists the differences between two lists of the same type.
func compare[T any](noun string, was, now []T, name func(T) string) []string {
	return Compare(noun, byName(was, name), byName(now, name))
}

// byName groups facts by name.
func byName[T any](list []T, name func(T) string) map[string]string {
	m := make(map[string]string)
	for _, one := range list {
		said, err := json.Marshal(one)
		if err != nil {
			said = []byte(err.Error()) // plain data is always encoded
		}
		m[name(one)] += string(said)
	}
	return m
}

// Compare lists the differences between two sets of facts, by name.
func Compare(noun string, was, now map[string]string) []string {
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch old, there := was[name]; {
		case !there:
			changes = append(changes, noun+" "+name+": is new")
		case old != now[name]:
			changes = append(changes, noun+" "+name+": has changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, there := now[name]; !there {
			changes = append(changes, noun+" "+name+": is gone")
		}
	}
	return changes
}
