package manifest

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/internal/diag"
)

// Dockerout is `dockerout <target> <dockerfile> <version>` or, instead of the version, any number of
// --build-arg=NAME=value: a Dockerfile whose image writes files for one target to /out. With --context=DIR as the
// last word it sees the files of that directory, and else none.
type Dockerout struct {
	Origin

	Target     string // folder of the package for the output, such as rhel-9
	Dockerfile string // path relative to the root of the repository, not to the Manifest (kURL §1.2)
	BuildArgs  []BuildArg
	Context    string // directory, also relative to the root of the repository; empty for none
}

// Keyword is "dockerout".
func (Dockerout) Keyword() string { return "dockerout" }

// BuildArg is one --build-arg of a Dockerout. The bare version of kURL's form has the name VERSION.
type BuildArg struct {
	Name, Value string
}

// Describe returns the target, the Dockerfile and its arguments.
func (d Dockerout) Describe() Description {
	s := Description{Name: d.Target, From: d.Dockerfile, Dockerfile: d.Dockerfile, BuildArgs: map[string]string{}, Context: d.Context}
	for _, arg := range d.BuildArgs {
		s.BuildArgs[arg.Name] = arg.Value
		s.From += " " + arg.Name + "=" + arg.Value
	}
	if d.Context != "" {
		s.From += " with the files of " + d.Context
	}
	return s
}

func (d Dockerout) check(c *checker) {
	switch {
	case !fileName.MatchString(d.Target):
		c.Errorf(d.word(0), "name an operating system, such as rhel-9", "bad target %q", d.Target)
	case !targetName.MatchString(d.Target):
		c.Warnf(d.word(0), "name an operating system, such as rhel-9", "no host looks for its packages in %q", d.Target)
	}
	if clean := path.Clean(d.Dockerfile); !filepath.IsLocal(clean) || clean == "." {
		c.Errorf(d.word(1), "give a path from the root of the repository", "Dockerfile %q is outside the repository", d.Dockerfile)
	}
	if d.Context != "" && !filepath.IsLocal(d.Context) {
		c.Errorf(d.word(2+len(d.BuildArgs)), "give a path from the root of the repository", "context %q is outside the repository", d.Context)
	}
	for i, arg := range d.BuildArgs {
		if !argName.MatchString(arg.Name) {
			c.Errorf(d.word(2+i), "letters, digits and '_'", "bad name of a build argument %q", arg.Name)
		}
	}
}

const dockeroutForm = "write: dockerout <target> <dockerfile> <version>, or --build-arg=NAME=value in place of the version"

func dockeroutSyntax() syntax {
	return syntax{keywords: []string{"dockerout"}, parse: parseDockerout, kurl: atMost(3)}
}

func parseDockerout(_ string, args []string, at Origin, problems *diag.List) Directive {
	if len(args) < 3 {
		problems.Errorf(at.Pos, dockeroutForm, "dockerout needs a target, a Dockerfile and a version")
		return nil
	}
	d := Dockerout{Origin: at, Target: args[0], Dockerfile: args[1]}
	words := args[2:]
	if dir, ok := strings.CutPrefix(words[len(words)-1], "--context="); ok && dir != "" {
		d.Context, words = dir, words[:len(words)-1]
	}
	seen := map[string]bool{}
	for i, word := range words {
		arg, ok := buildArg(i, word, at, problems)
		if !ok {
			return nil
		}
		if seen[arg.Name] {
			problems.Errorf(at.word(2+i), "keep one of them", "build argument %s is given twice", arg.Name)
			return nil
		}
		seen[arg.Name] = true
		d.BuildArgs = append(d.BuildArgs, arg)
	}
	return d
}

// buildArg reads a word behind the Dockerfile; i counts them from 0.
func buildArg(i int, word string, at Origin, problems *diag.List) (BuildArg, bool) {
	option, ok := strings.CutPrefix(word, "--")
	if !ok {
		if i > 0 {
			unexpected(at.word(2+i), word, "", dockeroutForm, problems)
		}
		return BuildArg{Name: "VERSION", Value: word}, i == 0
	}
	assignment, isArg := strings.CutPrefix(option, "build-arg=")
	name, value, assigned := strings.Cut(assignment, "=")
	switch {
	case option == "context=":
		problems.Errorf(at.word(2+i), "give a path from the root of the repository", "%q names no directory", word)
		return BuildArg{}, false
	case strings.HasPrefix(option, "context="):
		problems.Errorf(at.word(2+i), "give one, as the last word", "%q is not the last word", word)
		return BuildArg{}, false
	case !isArg || !assigned || name == "":
		problems.Errorf(at.word(2+i), dockeroutForm, "%q is not a build argument", word)
		return BuildArg{}, false
	}
	return BuildArg{Name: name, Value: value}, true
}
