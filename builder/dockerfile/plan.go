package dockerfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Plan is a Dockerfile with its arguments settled: which images it is built from, and what its image would run.
type Plan struct {
	Bases []string // references as written, with arguments filled in, each once and in order

	file   *File
	stages []stage
}

// stage is one FROM and its following instructions.
type stage struct {
	name, platform string
	base           string // an image; empty for scratch and for stages
	parent         int    // the stage that it continues, or -1
	from           int    // position of its FROM

	entrypoint, command *instruction
}

// scratch is the empty base.
const scratch = "scratch"

// Settle fills arguments into a Dockerfile as far as they decide which images it is built from. platform looks like linux/amd64.
func (f *File) Settle(args map[string]string, platform string) (*Plan, error) {
	p := &Plan{file: f}
	known := platformArgs(platform)
	for i := range f.instructions {
		in := &f.instructions[i]
		var err error
		switch {
		case in.keyword == "FROM":
			err = p.from(i, known)
		case in.keyword == "ARG" && len(p.stages) == 0:
			err = global(in.rest, args, known)
		case len(p.stages) == 0:
			err = errors.New("the first instruction must be FROM, or ARG for it")
		case in.keyword == "CMD":
			p.last().command = in
		case in.keyword == "ENTRYPOINT":
			p.last().enter(in, p.stages)
		case in.keyword == "COPY" || in.keyword == "RUN":
			p.use(in.rest)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", in.line, err)
		}
	}
	if len(p.stages) == 0 {
		return nil, errors.New("it has no FROM")
	}
	return p, nil
}

// platformArgs are the arguments that exist without being declared, as the Dockerfile reference lists them. The build runs
// where its result is for.
func platformArgs(platform string) map[string]string {
	parts := append(strings.SplitN(platform, "/", 3), "", "")
	known := make(map[string]string)
	for _, prefix := range []string{"TARGET", "BUILD"} {
		known[prefix+"PLATFORM"], known[prefix+"OS"], known[prefix+"ARCH"], known[prefix+"VARIANT"] = platform, parts[0], parts[1], parts[2]
	}
	return known
}

// global takes an ARG before the first FROM.
func global(rest string, given, known map[string]string) error {
	for word := range strings.FieldsSeq(rest) {
		name, fallback, hasFallback := strings.Cut(word, "=")
		if value, ok := given[name]; ok {
			known[name] = value
			continue
		}
		if !hasFallback {
			continue
		}
		value, err := expand(strings.Trim(fallback, `"'`), known)
		if err != nil {
			return err
		}
		known[name] = value
	}
	return nil
}

func (p *Plan) last() *stage { return &p.stages[len(p.stages)-1] }

// enter sets the ENTRYPOINT of a stage. It drops a CMD that the stage inherits, and not one of its own, wherever that is.
func (s *stage) enter(in *instruction, stages []stage) {
	s.entrypoint = in
	if s.parent >= 0 && s.command == stages[s.parent].command {
		s.command = nil
	}
}

// stageName matches the names that the Dockerfile reference allows.
var stageName = regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`)

// from reads FROM [--platform=…] <image> [AS <name>].
func (p *Plan) from(i int, known map[string]string) error {
	words := strings.Fields(p.file.instructions[i].rest)
	s := stage{parent: -1, from: i}
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		value, ok := strings.CutPrefix(words[0], "--platform=")
		if !ok {
			return fmt.Errorf("FROM has no option %s", words[0])
		}
		s.platform, words = value, words[1:]
	}
	switch {
	case len(words) == 3 && strings.EqualFold(words[1], "AS"):
		s.name = strings.ToLower(words[2])
		if !stageName.MatchString(s.name) {
			return fmt.Errorf("%q is not the name of a stage", words[2])
		}
	case len(words) != 1:
		return errors.New("write: FROM <image> [AS <name>]")
	}
	base, err := expand(words[0], known)
	if err != nil {
		return err
	}
	if base == "" {
		return fmt.Errorf("FROM %s has no image name; set the argument", words[0])
	}
	if s.parent = p.stage(base); s.parent < 0 && base != scratch {
		s.base = base
		p.name(base)
	}
	if s.parent >= 0 {
		s.entrypoint, s.command = p.stages[s.parent].entrypoint, p.stages[s.parent].command
	}
	p.stages = append(p.stages, s)
	return nil
}

// stage finds a stage by its name.
func (p *Plan) stage(name string) int {
	return slices.IndexFunc(p.stages, func(s stage) bool { return s.name != "" && s.name == strings.ToLower(name) })
}

// name notes an image.
func (p *Plan) name(ref string) {
	if !slices.Contains(p.Bases, ref) {
		p.Bases = append(p.Bases, ref)
	}
}

// source matches where COPY --from and RUN --mount=from take files from.
var source = regexp.MustCompile(`(^--from=|,from=|^--mount=from=)([^\s,]+)`)

// use records images from which files are copied without building on them.
func (p *Plan) use(rest string) {
	p.replaceSources(rest, func(ref string) string {
		p.name(ref)
		return ref
	})
}

// replaceSources replaces the images in the options that rest starts with. Stages, by name or number, are none.
func (p *Plan) replaceSources(rest string, replace func(ref string) string) string {
	var options []string
	for strings.HasPrefix(rest, "--") {
		end := strings.IndexFunc(rest, unicode.IsSpace)
		if end < 0 {
			end = len(rest)
		}
		word := rest[:end]
		options = append(options, source.ReplaceAllStringFunc(word, func(match string) string {
			m := source.FindStringSubmatch(match)
			if _, err := strconv.Atoi(m[2]); err == nil || p.stage(m[2]) >= 0 || m[2] == scratch {
				return match
			}
			return m[1] + replace(m[2])
		}))
		rest = strings.TrimSpace(rest[end:])
	}
	return strings.Join(append(options, rest), " ")
}

// variable matches $name, ${name}, ${name:-default} and ${name:+alternative}.
var variable = regexp.MustCompile(`\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:[-+])([^{}$]*))?\})`)

func expand(s string, known map[string]string) (string, error) {
	var err error
	out := variable.ReplaceAllStringFunc(s, func(match string) string {
		m := variable.FindStringSubmatch(match)
		name := m[1] + m[2]
		value, ok := known[name]
		switch {
		case m[3] == ":-" && value == "":
			return m[4]
		case m[3] == ":+" && value != "":
			return m[4]
		case m[3] == ":+":
			return ""
		case !ok && err == nil:
			err = fmt.Errorf("$%s has no value; declare it with ARG %s=… before the first FROM, or give it with --build-arg=%s=…", name, name, name)
		}
		return value
	})
	if err == nil && strings.Contains(out, "$") {
		err = fmt.Errorf("%q is not understood; write the image's name plainly", s)
	}
	return out, err
}

// Names of the stages that Render adds.
const (
	builtStage = "sealift-built"
	ranStage   = "sealift-ran"
)

// outDir is where the image writes its files, as kURL mounts it (kURL §1.4).
const outDir = "/out"

// Render returns the Dockerfile to build. It replaces images by the references in pinned, and adds two stages. The first runs the
// command of the image, with /out in it; the last has the files of /out. So every engine returns the files as the result of a
// build, and none has to run a container.
func (p *Plan) Render(pinned map[string]string) ([]byte, error) {
	final := p.last()
	run, err := final.run()
	if err != nil {
		return nil, err
	}
	if !p.file.isRun(run) {
		return nil, errors.New("the CMD of its last stage has a here-document, which only RUN and COPY take; put it into a script")
	}
	var b strings.Builder
	if p.file.escape != '\\' {
		fmt.Fprintf(&b, "# escape=%c\n", p.file.escape)
	}
	missing := ""
	pin := func(ref string) string {
		if pinned[ref] == "" {
			missing = ref
		}
		return pinned[ref]
	}
	for i, in := range p.file.instructions {
		switch in.keyword {
		case "FROM":
			b.WriteString(p.renderFrom(i, pin) + "\n")
		case "COPY", "RUN":
			fmt.Fprintf(&b, "%s %s\n%s", in.keyword, p.replaceSources(in.rest, pin), in.bodies)
		default:
			fmt.Fprintf(&b, "%s %s\n%s", in.keyword, in.rest, in.bodies)
		}
	}
	if missing != "" {
		return nil, fmt.Errorf("image %s is not pinned", missing)
	}
	name := final.name
	if name == "" {
		name = builtStage
	}
	fmt.Fprintf(&b, "FROM %s AS %s\nUSER 0\nRUN [\"mkdir\", \"-p\", %q]\nRUN %s\nFROM %s\nCOPY --from=%s %s/ /\n", name, ranStage, outDir, run, scratch, ranStage, outDir)
	return []byte(b.String()), nil
}

// renderFrom writes the FROM of a stage. The last stage gets a name if it has none.
func (p *Plan) renderFrom(i int, pin func(ref string) string) string {
	s := p.stages[slices.IndexFunc(p.stages, func(s stage) bool { return s.from == i })]
	words := []string{"FROM"}
	if s.platform != "" {
		words = append(words, "--platform="+s.platform)
	}
	switch {
	case s.parent >= 0:
		words = append(words, p.stages[s.parent].name)
	case s.base == "":
		words = append(words, scratch)
	default:
		words = append(words, pin(s.base))
	}
	if s.name == "" && i == p.last().from {
		s.name = builtStage
	}
	if s.name != "" {
		words = append(words, "AS", s.name)
	}
	return strings.Join(words, " ")
}

// run is the argument of RUN that runs what a container of the stage's image would run.
func (s *stage) run() (string, error) {
	if (s.entrypoint == nil || s.entrypoint.rest == "") && (s.command == nil || s.command.rest == "") {
		return "", fmt.Errorf("its last stage has no CMD; end it with one that copies files to %s", outDir)
	}
	var words []string
	if s.entrypoint != nil {
		if len(s.entrypoint.words) == 0 || s.command == nil {
			return s.entrypoint.rest, nil // a shell takes no further arguments
		}
		words = slices.Clone(s.entrypoint.words)
	}
	switch {
	case len(s.command.words) > 0:
		words = append(words, s.command.words...)
	case s.entrypoint == nil:
		return s.command.rest, nil
	default:
		words = append(words, "/bin/sh", "-c", s.command.rest)
	}
	line, err := json.Marshal(words)
	return string(line), err
}
