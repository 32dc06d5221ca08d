// Package kurlbin contains the programs that kURL's add-ons call by their paths in $DIR/bin: kurl, bcrypt, htpasswd, subnet, toml
// and yamlutil, with the flags and the output that the add-ons rely on (docs/reference/kurl.md, kURL §4.3 and §5).
//
// It inspects the host and the cluster and edits the given files; it moves no data between storage systems.
package kurlbin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Streams are a program's.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// ErrUsage reports that a program was called in an unknown way.
var ErrUsage = errors.New("wrong usage")

type program func(ctx context.Context, args []string, s Streams) error

func programs() map[string]program {
	return map[string]program{
		"kurl":      kurl,
		"bcrypt":    hashPassword,
		"htpasswd":  htpasswd,
		"pvmigrate": noMigration("pvmigrate"),
		"subnet":    subnet,
		"toml":      mergeTOML,
		"yamlutil":  yamlutil,
	}
}

// Names are the programs there are.
func Names() []string { return slices.Sorted(maps.Keys(programs())) }

// Run runs a program with its arguments. The error is for a person to read.
func Run(ctx context.Context, name string, args []string, s Streams) error {
	p, known := programs()[name]
	if !known {
		return fmt.Errorf("%w: there is no program %q; known: %s", ErrUsage, name, strings.Join(Names(), ", "))
	}
	if err := p(ctx, args, s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// flags makes a set that accepts kURL's flags, with one dash or two.
func flags(s Streams) *flag.FlagSet {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(s.Err)
	set.Usage = func() {}
	return set
}

func parse(set *flag.FlagSet, args []string) error {
	if err := set.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return nil
}

func noMigration(what string) program {
	return func(context.Context, []string, Streams) error {
		return fmt.Errorf("data are not moved between storage systems (%s); move them with the tools of the storage", what)
	}
}

// command finds the longest command that the arguments begin with.
func command(commands map[string]program, args []string) (program, []string, error) {
	for words := min(len(args), 2); words > 0; words-- {
		if run, ok := commands[strings.Join(args[:words], " ")]; ok {
			return run, args[words:], nil
		}
	}
	return nil, nil, fmt.Errorf("%w: Sealift has no %q; it has: %s", ErrUsage, strings.Join(args, " "), strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
}
