package manifest

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sealift/sealift/internal/diag"
)

// Bounds on what is read, in bytes. The largest of kURL's 1,061 Manifests has under 3 KB and its longest line under
// 200 bytes; presigned URLs reach 2 KB.
const (
	MaxFileSize = 1 << 20
	MaxLineSize = 8 << 10
)

// Parse reads a Manifest; name stands for it in positions. What is wrong with the words of a line is a diag.Errors with
// every such line of the file, and the File that comes with it holds the other lines. Any other error is one of reading
// and comes without a File. What the words mean is looked at by Check.
func Parse(name string, r io.Reader) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", name, err)
	}
	var problems diag.List
	file := &File{Name: name}
	if len(text) > MaxFileSize {
		problems.Errorf(diag.Pos{File: name}, "a Manifest lists what to fetch; is this the right file?",
			"larger than %d bytes", MaxFileSize)
		return file, problems.Err()
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // a byte order mark, as some editors leave
	for number := 1; len(text) > 0; number++ {
		var raw []byte
		raw, text, _ = bytes.Cut(text, []byte("\n"))
		raw = bytes.TrimSuffix(raw, []byte("\r"))
		if l, ok := parseLine(diag.Pos{File: name, Line: number, Col: 1}, string(raw), &problems); ok {
			file.lines = append(file.lines, l)
		}
	}
	return file, problems.Err()
}

func parseLine(pos diag.Pos, raw string, problems *diag.List) (line, bool) {
	if len(raw) > MaxLineSize {
		problems.Errorf(pos, "", "line longer than %d bytes", MaxLineSize)
		return line{}, false
	}
	trimmed := strings.Trim(raw, " \t")
	if at := strings.IndexFunc(trimmed, isNotText); at >= 0 {
		pos.Col = strings.Index(raw, trimmed) + at + 1
		bad, _ := utf8.DecodeRuneInString(trimmed[at:])
		problems.Errorf(pos, "write plain UTF-8 text", "unreadable character %U", bad)
		return line{}, false
	}
	if trimmed == "" {
		return line{}, true
	}
	if strings.HasPrefix(trimmed, "#") {
		return line{comment: trimmed}, true
	}
	words, columns := split(raw)
	pos.Col = columns[0]
	d := directive(words, Origin{Pos: pos, columns: columns[1:]}, problems)
	return line{words: words, directive: d}, d != nil
}

// isNotText finds control characters other than tab and bytes that are not UTF-8: they would end up in file names.
func isNotText(r rune) bool {
	return r == utf8.RuneError || r != '\t' && unicode.IsControl(r)
}

// split parts a line at blanks and tabs and says at which column, from 1, each word starts.
func split(raw string) (words []string, columns []int) {
	start := -1
	for i := 0; i <= len(raw); i++ {
		blank := i == len(raw) || raw[i] == ' ' || raw[i] == '\t'
		switch {
		case blank && start >= 0:
			words, columns = append(words, raw[start:i]), append(columns, start+1)
			start = -1
		case !blank && start < 0:
			start = i
		}
	}
	return words, columns
}

// directive makes a directive of a line's words, or reports what is wrong with them and returns nil.
func directive(words []string, at Origin, problems *diag.List) Directive {
	keyword, args := words[0], words[1:]
	switch keyword {
	case KeywordImage:
		return image(args, at, problems)
	case KeywordAsset:
		return asset(args, at, problems)
	case KeywordDockerout:
		return dockerout(args, at, problems)
	}
	if kind, ok := hostPackageKind(keyword); ok {
		return hostPackage(kind, args, at, problems)
	}
	problems.Errorf(at.Pos, diag.DidYouMean(keyword, Keywords(), "known: "), "unknown directive %q", keyword)
	return nil
}

func image(args []string, at Origin, problems *diag.List) Directive {
	const form, flag = "write: image <id> <reference> [no_remote_load]", "no_remote_load"
	if len(args) < 2 {
		problems.Errorf(at.Pos, form, "image needs an id and a reference")
		return nil
	}
	d := Image{Origin: at, ID: args[0], Ref: args[1]}
	for i, extra := range args[2:] {
		switch {
		case extra == flag && !d.NoRemoteLoad:
			d.NoRemoteLoad = true
		case extra == flag:
			problems.Errorf(at.word(2+i), form, "%s is repeated", flag)
			return nil
		default:
			unexpected(at.word(2+i), extra, diag.Nearest(extra, []string{flag}), form, problems)
			return nil
		}
	}
	return d
}

func asset(args []string, at Origin, problems *diag.List) Directive {
	const form = "write: asset [<name>] <url or path>"
	switch len(args) {
	case 0:
		problems.Errorf(at.Pos, form, "asset needs a source")
		return nil
	case 1:
		name, err := lastElement(args[0])
		if err != nil {
			problems.Errorf(at.word(0), "write: asset <name> <url or path>", "no file name can be taken from %q: %v", args[0], err)
			return nil
		}
		return Asset{Origin: at, Name: name, Source: args[0]}
	case 2:
		return Asset{Origin: at, Name: args[0], Source: args[1]}
	}
	unexpected(at.word(2), args[2], "", form, problems)
	return nil
}

// lastElement is the file name that a source suggests: what follows the last slash, without query, unescaped.
func lastElement(source string) (string, error) {
	if !strings.Contains(source, "://") {
		return path.Base(source), nil
	}
	u, err := url.Parse(source)
	if err != nil {
		return "", err
	}
	escaped := u.EscapedPath()
	name, err := url.PathUnescape(escaped[strings.LastIndex(escaped, "/")+1:])
	if err == nil && name == "" {
		err = fmt.Errorf("its path ends in a slash")
	}
	return name, err
}

func hostPackage(kind HostPackageKind, args []string, at Origin, problems *diag.List) Directive {
	form := "write: " + kind.Keyword + " <package>"
	switch {
	case len(args) == 0:
		problems.Errorf(at.Pos, form, "%s needs a package name", kind.Keyword)
		return nil
	case len(args) > 1 && strings.HasPrefix(args[1], "#"):
		unexpected(at.word(1), args[1], "", form, problems)
		return nil
	case len(args) > 1:
		problems.Errorf(at.word(1), "give each package a line of its own; kURL takes the first and drops the others",
			"several packages on one line: %s", strings.Join(args, " "))
		return nil
	}
	return HostPackage{Origin: at, Kind: kind, Name: args[0]}
}

const dockeroutForm = "write: dockerout <target> <dockerfile> <version>, or --build-arg=NAME=value in place of the version"

func dockerout(args []string, at Origin, problems *diag.List) Directive {
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

// unexpected reports a word that a directive has no place for.
func unexpected(pos diag.Pos, word, meant, form string, problems *diag.List) {
	hint := form
	switch {
	case strings.HasPrefix(word, "#"):
		hint = "put the comment on a line of its own"
	case meant != "":
		hint = fmt.Sprintf("did you mean %q?", meant)
	}
	problems.Errorf(pos, hint, "unexpected %q", word)
}
