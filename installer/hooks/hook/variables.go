package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Variables are shell variables as plain data that a journal can keep: NAME is a scalar's value, NAME[] and NAME{} are the
// elements of an indexed and of an associative array as a JSON object, and "export NAME" means that programs see it too.
type Variables map[string]string

const (
	listMark   = "[]"
	mapMark    = "{}"
	exportMark = "export "
	unsetMark  = "unset "
)

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	listKey      = regexp.MustCompile(`^[0-9]{1,18}$`)
)

// unsettled are bash's own variables, and those that change on their own.
var unsettled = regexp.MustCompile(`^(BASH.*|_|EPOCH.*|RANDOM|SRANDOM|SECONDS|LINENO|PIPESTATUS|FUNCNAME|OPT(ARG|ERR|IND)|COMP_.*|MAPFILE|REPLY|PPID|E?UID|SHELLOPTS|SHLVL|IFS|PWD|OLDPWD|HOST(NAME|TYPE)|MACHTYPE|OSTYPE|DIRSTACK|GROUPS|sealift_.*)$`)

// Scalars are the variables that have one value.
func (v Variables) Scalars() map[string]string {
	scalars := make(map[string]string)
	for name, value := range v {
		if variableName.MatchString(name) {
			scalars[name] = value
		}
	}
	return scalars
}

// Since returns the changes from before to v: new and changed variables, and, as "unset NAME", removed ones.
func (v Variables) Since(before Variables) Variables {
	changed := Variables{}
	for name, value := range v {
		if old, known := before[name]; !known || old != value {
			changed[name] = value
		}
	}
	for name := range before {
		if _, there := v[name]; there || strings.HasPrefix(name, exportMark) {
			continue
		}
		bare := strings.TrimSuffix(strings.TrimSuffix(name, listMark), mapMark)
		if !v.has(bare) {
			changed[unsetMark+bare] = ""
		}
	}
	return changed
}

// has reports whether a variable of that name exists, of any type.
func (v Variables) has(name string) bool {
	for _, mark := range []string{"", listMark, mapMark} {
		if _, there := v[name+mark]; there {
			return true
		}
	}
	return false
}

// Add puts a later change on top.
func (v Variables) Add(changed Variables) {
	for name, value := range changed {
		bare, gone := strings.CutPrefix(name, unsetMark)
		bare = strings.TrimSuffix(strings.TrimSuffix(bare, listMark), mapMark)
		if !strings.HasPrefix(bare, exportMark) {
			for _, other := range []string{bare, bare + listMark, bare + mapMark, unsetMark + bare} {
				delete(v, other)
			}
		}
		if gone {
			delete(v, exportMark+bare)
		}
		v[name] = value
	}
}

// Variables returns all variables of the shell that hooks can have set.
func (s *Shell) Variables(ctx context.Context) (Variables, error) {
	said, err := s.request(ctx, "read the variables", "variables")
	if err != nil {
		return nil, err
	}
	all := Variables{}
	for _, m := range said {
		if len(m.fields) == 0 || unsettled.MatchString(m.fields[0]) {
			continue
		}
		name, rest := m.fields[0], m.fields[1:]
		switch {
		case m.kind == "scalar" && len(rest) == 1:
			all[name] = rest[0]
		case m.kind == "exported":
			all[exportMark+name] = ""
		case m.kind == "list" || m.kind == "map":
			elements := make(map[string]string, len(rest)/2)
			for i := 0; i+1 < len(rest); i += 2 {
				elements[rest[i]] = rest[i+1]
			}
			text, err := json.Marshal(elements)
			if err != nil {
				return nil, fmt.Errorf("array %s of the hooks: %w", name, err)
			}
			all[name+map[string]string{"list": listMark, "map": mapMark}[m.kind]] = string(text)
		}
	}
	return all, nil
}

// Set sets a shell variable to a value with any characters except NUL.
func (s *Shell) Set(ctx context.Context, name, value string) error {
	return s.Restore(ctx, Variables{name: value})
}

// Restore restores the values and types of variables, the exports last.
func (s *Shell) Restore(ctx context.Context, v Variables) error {
	byExport := func(a, b string) int {
		return strings.Compare(fmt.Sprint(strings.HasPrefix(a, exportMark), a), fmt.Sprint(strings.HasPrefix(b, exportMark), b))
	}
	for _, name := range slices.SortedFunc(maps.Keys(v), byExport) {
		fields, err := restoring(name, v[name])
		if err != nil {
			return err
		}
		if _, err := s.request(ctx, "set "+name, fields...); err != nil {
			return err
		}
	}
	return nil
}

// restoring is the request that restores one entry.
func restoring(name, value string) ([]string, error) {
	var fields []string
	bare := name
	if gone, ok := strings.CutPrefix(name, unsetMark); ok {
		bare, fields = gone, []string{"unset", gone}
	} else if exported, ok := strings.CutPrefix(name, exportMark); ok {
		bare, fields = exported, []string{"export", exported}
	} else if list, ok := strings.CutSuffix(name, listMark); ok {
		bare, fields = list, []string{"list", list}
	} else if dict, ok := strings.CutSuffix(name, mapMark); ok {
		bare, fields = dict, []string{"map", dict}
	} else {
		fields = []string{"set", name, value}
	}
	if !variableName.MatchString(bare) {
		return nil, fmt.Errorf("%q cannot be a shell variable", bare)
	}
	if fields[0] == "list" || fields[0] == "map" {
		var elements map[string]string
		if err := json.Unmarshal([]byte(value), &elements); err != nil {
			return nil, fmt.Errorf("the elements of the array %s: %w", bare, err)
		}
		fields = append(fields, strconv.Itoa(len(elements)))
		for _, key := range slices.Sorted(maps.Keys(elements)) {
			if key == "" || fields[0] == "list" && !listKey.MatchString(key) {
				return nil, fmt.Errorf("%q cannot be the key of an element of %s", key, bare)
			}
			fields = append(fields, key, elements[key])
		}
	}
	for _, field := range fields {
		if strings.ContainsRune(field, 0) {
			return nil, fmt.Errorf("the value of %s has a NUL byte, which no shell can hold", bare)
		}
	}
	return fields, nil
}
