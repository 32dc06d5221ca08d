// Package kubeadm reads and edits what kubeadm leaves behind: the flags of static pods and of kubelets, and kubeadm's configuration in
// the cluster. It never runs kubeadm, and decides nothing: callers know the purpose of a value.
package kubeadm

import (
	"iter"
	"slices"
	"strings"
)

// Args are the words of a command line, with or without the program before its flags. A flag is --name=value, or --name and value in two
// words. One dash is as good as two: etcd takes both, and kubelets take -v. A flag without a value is one of yes or no, and means "true".
// A word "--" ends the flags.
type Args []string

// flag is one flag of Args: words of them, from index at.
type flag struct {
	name, value string
	at, words   int
}

// isFlag reports whether a word begins a flag. A negative number is a value.
func isFlag(word string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
	return len(name) < len(word) && name != "" && (name[0] >= 'a' && name[0] <= 'z' || name[0] >= 'A' && name[0] <= 'Z')
}

// end returns the index of the word after the last flag.
func (a Args) end() int {
	if at := slices.Index(a, "--"); at >= 0 {
		return at
	}
	return len(a)
}

func (a Args) flags() iter.Seq[flag] {
	return func(yield func(flag) bool) {
		for at, end := 0, a.end(); at < end; {
			one := flag{at: at, words: 1}
			if isFlag(a[at]) {
				var assigned bool
				one.name, one.value, assigned = strings.Cut(strings.TrimLeft(a[at], "-"), "=")
				switch {
				case assigned:
				case at+1 < end && !isFlag(a[at+1]):
					one.value, one.words = a[at+1], 2
				default:
					one.value = "true"
				}
				if !yield(one) {
					return
				}
			}
			at += one.words
		}
	}
}

// All returns the flags in their order: names without dashes, and values.
func (a Args) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for one := range a.flags() {
			if !yield(one.name, one.value) {
				return
			}
		}
	}
}

// Get returns the value of a flag, named without dashes. Of a repeated flag, it is the last one, as in programs. ok reports whether
// the flag is given.
func (a Args) Get(name string) (value string, ok bool) {
	for known, is := range a.All() {
		if known == name {
			value, ok = is, true
		}
	}
	return value, ok
}

// Value is Get for a flag whose absence means the same as an empty value.
func (a Args) Value(name string) string {
	value, _ := a.Get(name)
	return value
}

// With returns the arguments with a value for a flag, wherever it is given, or else after all flags.
func (a Args) With(name, value string) Args {
	word, out, from := "--"+name+"="+value, Args{}, 0
	for one := range a.flags() {
		if one.name == name {
			out = append(append(out, a[from:one.at]...), word)
			from = one.at + one.words
		}
	}
	if end := a.end(); from == 0 {
		return slices.Concat(a[:end], Args{word}, a[end:])
	}
	return append(out, a[from:]...)
}

// Only returns the words of the flags that keep selects by their names, and nothing else.
func (a Args) Only(keep func(name string) bool) Args {
	var out Args
	for one := range a.flags() {
		if keep(one.name) {
			out = append(out, a[one.at:one.at+one.words]...)
		}
	}
	return out
}
