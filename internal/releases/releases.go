// Package releases is the table of the versions that the catalogue ships and the lab makes: releases.txt, which says what its columns
// mean. It names versions of others' software; Sealift's own is not among them.
package releases

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed releases.txt
var text string

// Use is the purpose of a version. From Lab on, greater values include lesser ones.
type Use int

// The uses, as releases.txt defines them.
const (
	Tool Use = iota
	Lab
	Shipped
	Tested
	Default
)

var uses = []string{"tool", "lab", "shipped", "tested", "default"}

// Release is a version of an add-on, or of a program that tests use.
type Release struct {
	Name    string
	Version string // without a v, as in the name of the add-on's folder
	Use     Use
	With    map[string]string // parameters of the add-on's template, such as etcd: 3.6.8-0
}

// Folder is the folder of the add-on in the catalogue.
func (r Release) Folder() string { return "addons/" + r.Name + "/" + r.Version }

// All lists the table in its order.
func All() []Release { return slices.Clone(table()) }

var table = sync.OnceValue(func() []Release {
	list, err := parse(text)
	if err != nil {
		panic("releases.txt: " + err.Error()) // a test reads it
	}
	return list
})

// Of lists the versions of an add-on with at least this use, oldest first.
func Of(name string, use Use) (list []Release) {
	for _, r := range table() {
		if r.Name == name && r.Use >= use {
			list = append(list, r)
		}
	}
	return list
}

// Current is the version that the README and the demo install, or the only one of a tool. It panics if the table lacks the name.
func Current(name string) Release {
	at := slices.IndexFunc(table(), func(r Release) bool { return r.Name == name && (r.Use == Default || r.Use == Tool) })
	if at < 0 {
		panic("releases.txt has no " + name)
	}
	return table()[at]
}

// Newest is the newest version that ships of an add-on. It panics if the table has none.
func Newest(name string) Release {
	list := Of(name, Shipped)
	if len(list) == 0 {
		panic("releases.txt ships no " + name)
	}
	return list[len(list)-1]
}

// Before is the version before this one in the table, from which upgrades to it start. It panics if there is none.
func (r Release) Before() Release {
	list := Of(r.Name, Lab)
	at := slices.IndexFunc(list, func(other Release) bool { return other.Version == r.Version })
	if at < 1 {
		panic("releases.txt has no " + r.Name + " before " + r.Version)
	}
	return list[at-1]
}

// Parameters lists With as --set of 'sealift addon new-version' takes it.
func (r Release) Parameters() string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(r.With)) {
		list = append(list, key+"="+r.With[key])
	}
	return strings.Join(list, ",")
}

func parse(text string) (list []Release, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		r, err := parseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, r)
	}
	return list, nil
}

func parseLine(fields []string) (Release, error) {
	if len(fields) < 3 || len(fields) > 4 {
		return Release{}, fmt.Errorf("%d columns; write NAME VERSION USE [WITH]", len(fields))
	}
	r := Release{Name: fields[0], Version: fields[1], Use: Use(slices.Index(uses, fields[2]))}
	if r.Use < 0 {
		return r, fmt.Errorf("%q is not a use; write one of %s", fields[2], strings.Join(uses, ", "))
	}
	if len(fields) < 4 {
		return r, nil
	}
	r.With = make(map[string]string)
	for pair := range strings.SplitSeq(fields[3], ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" {
			return r, fmt.Errorf("%q is not NAME=VALUE", pair)
		}
		r.With[key] = value
	}
	return r, nil
}
