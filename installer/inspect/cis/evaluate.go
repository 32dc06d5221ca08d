package cis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// test reports whether a value meets the benchmark, and describes the requirement. set reports whether there is a value.
type test struct {
	wants string
	ok    func(value string, set bool) bool
}

func is(want string) test {
	return test{"it must be " + want, func(value string, _ bool) bool { return value == want }}
}

func isNot(bad string) test {
	return test{"it must not be " + bad, func(value string, _ bool) bool { return value != bad }}
}

// isOrUnset accepts the default, which meets the benchmark.
func isOrUnset(want string) test {
	return test{"it must be " + want + ", or left out", func(value string, set bool) bool { return !set || value == want }}
}

func given() test {
	return test{"it must be set", func(value string, set bool) bool { return set && value != "" }}
}

func absent() test {
	return test{"it must not be set", func(_ string, set bool) bool { return !set }}
}

func has(item string) test {
	return test{"it must contain " + item, func(value string, _ bool) bool { return slices.Contains(strings.Split(value, ","), item) }}
}

func lacks(item string) test {
	return test{"it must not contain " + item, func(value string, _ bool) bool { return !slices.Contains(strings.Split(value, ","), item) }}
}

func atLeast(n int) test {
	return test{fmt.Sprintf("it must be at least %d", n), func(value string, _ bool) bool {
		number, err := strconv.Atoi(value)
		return err == nil && number >= n
	}}
}

// strong are the TLS suites without known weaknesses. Those of TLS 1.3 cannot be chosen in Go, and are always there.
var strong = []string{
	"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

// strongOnly checks a list of suites, written with commas or, as Go prints a list of YAML, in brackets.
func strongOnly() test {
	return test{"it must name strong suites only", func(value string, set bool) bool {
		list := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("[], ", r) })
		return set && len(list) > 0 && !slices.ContainsFunc(list, func(s string) bool { return !slices.Contains(strong, s) })
	}}
}

// flag checks an argument of a static pod.
func flag(component, name string, t test) func(context.Context, *facts) (finding, error) {
	return onControlPlane(func(_ context.Context, f *facts) (finding, error) {
		if f.flags[component] == nil {
			return notApplicable("this node has no static pod " + component), nil
		}
		value, set := f.flags[component][name]
		return look("--"+name, value, set, t), nil
	})
}

// both requires two arguments to be set.
func both(component, one, other string) func(context.Context, *facts) (finding, error) {
	return onControlPlane(func(_ context.Context, f *facts) (finding, error) {
		if f.flags[component] == nil {
			return notApplicable("this node has no static pod " + component), nil
		}
		first, second := f.flags[component][one], f.flags[component][other]
		return judge(first != "" && second != "", "--"+one+"="+first+" --"+other+"="+second, "both must be set"), nil
	})
}

// setting checks the kubelet: its argument, which wins, or its configuration.
func setting(argument, path string, t test) func(context.Context, *facts) (finding, error) {
	return func(_ context.Context, f *facts) (finding, error) {
		if value, set := f.own[argument]; set {
			return look("--"+argument, value, true, t), nil
		}
		value := f.setting(path)
		return look(path, value, value != "", t), nil
	}
}

func look(name, value string, set bool, t test) finding {
	found := name + "=" + value
	if !set {
		found = name + " is not set"
	}
	return judge(t.ok(value, set), found, t.wants)
}

// files finds the files of patterns. A pattern that ends in /** is a folder with everything below it.
func (f *facts) files(patterns ...string) (all []string, err error) {
	for _, pattern := range patterns {
		below, whole := strings.CutSuffix(pattern, "/**")
		if !whole {
			found, err := filepath.Glob(f.path(pattern))
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
			continue
		}
		err := filepath.WalkDir(f.path(below), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				all = append(all, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return all, nil
}

// mode requires files to have no permissions beyond the given ones.
func mode(most fs.FileMode, patterns ...string) func(context.Context, *facts) (finding, error) {
	return inFiles(patterns, fmt.Sprintf("%04o or less is wanted", most), func(info fs.FileInfo) (string, bool) {
		return fmt.Sprintf("%04o", info.Mode().Perm()), info.Mode().Perm()&^most == 0
	}, func(info fs.FileInfo) bool { return most&0o100 == 0 && info.IsDir() })
}

// owner requires files to belong to root.
func owner(patterns ...string) func(context.Context, *facts) (finding, error) {
	return inFiles(patterns, "0:0 is wanted", func(info fs.FileInfo) (string, bool) {
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "unknown", false
		}
		return fmt.Sprintf("%d:%d", stat.Uid, stat.Gid), stat.Uid == 0 && stat.Gid == 0
	}, func(fs.FileInfo) bool { return false })
}

// inFiles checks each file, and names the first that fails.
func inFiles(patterns []string, wants string, ok func(fs.FileInfo) (string, bool), skip func(fs.FileInfo) bool) func(context.Context, *facts) (finding, error) {
	return func(_ context.Context, f *facts) (finding, error) {
		all, err := f.files(patterns...)
		if err != nil {
			return finding{}, err
		}
		var good, bad []string
		for _, path := range all {
			info, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) || err == nil && skip(info) {
				continue
			}
			if err != nil {
				return finding{}, err
			}
			value, fine := ok(info)
			line := value + " " + "/" + strings.TrimPrefix(strings.TrimPrefix(path, f.path("/")), "/")
			if fine {
				good = append(good, line)
			} else {
				bad = append(bad, line)
			}
		}
		switch {
		case len(bad) > 0:
			return notMet(summary(bad), wants), nil
		case len(good) > 0:
			return met(summary(good)), nil
		}
		return notApplicable("this node has no " + strings.Join(patterns, ", ")), nil
	}
}

// summary names the first of a list, and counts the others.
func summary(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return fmt.Sprintf("%s, and %d more", list[0], len(list)-1)
}
