package dockerfile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// maxSize bounds a Dockerfile, in bytes.
const maxSize = 1 << 20

// instruction is one instruction with the lines that it takes.
type instruction struct {
	line    int    // of its start, from 1
	keyword string // in upper case
	rest    string // what follows the keyword, lines joined, without the bodies of heredocs
	bodies  string // of heredocs, each line with its end
}

// File is a parsed Dockerfile.
type File struct {
	escape       byte
	instructions []instruction
}

// Parse reads a Dockerfile as far as it has to be understood here: its instructions, continued lines, comments and
// heredocs, by the Dockerfile reference. What instructions mean is left to the engine.
func Parse(r io.Reader) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("larger than %d bytes", maxSize)
	}
	p := parser{file: &File{escape: '\\'}, lines: bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))}
	p.lines.Buffer(nil, maxSize+1)
	if err := p.parse(); err != nil {
		return nil, err
	}
	return p.file, nil
}

type parser struct {
	file  *File
	lines *bufio.Scanner
	n     int // lines read
}

func (p *parser) next() (string, bool) {
	if !p.lines.Scan() {
		return "", false
	}
	p.n++
	return strings.TrimSuffix(p.lines.Text(), "\r"), true
}

// directive matches a parser directive, which only counts before everything else.
var directive = regexp.MustCompile(`^#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*$`)

func (p *parser) parse() error {
	directives := true
	for {
		line, ok := p.next()
		if !ok {
			return p.lines.Err()
		}
		if directives {
			m := directive.FindStringSubmatch(line)
			if directives = m != nil; directives {
				if strings.EqualFold(m[1], "escape") {
					if m[2] != "`" && m[2] != "\\" {
						return fmt.Errorf("line %d: the escape character is neither a backslash nor a backquote", p.n)
					}
					p.file.escape = m[2][0]
				}
				continue
			}
		}
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
			if err := p.instruction(line); err != nil {
				return err
			}
		}
	}
}

// instruction reads the instruction that starts with a line.
func (p *parser) instruction(line string) error {
	i := instruction{line: p.n}
	logical := ""
	for {
		part, continued := p.continued(line)
		logical += part
		if !continued {
			break
		}
		var ok bool
		if line, ok = p.nextContinuation(); !ok {
			return fmt.Errorf("line %d: the file ends where the line is to be continued", p.n)
		}
	}
	keyword, rest, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(logical), "\t", " "), " ")
	i.keyword, i.rest = strings.ToUpper(keyword), strings.TrimSpace(rest)
	if strings.Trim(i.keyword, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return fmt.Errorf("line %d: %q is not an instruction", i.line, keyword)
	}
	if i.keyword == "RUN" || i.keyword == "COPY" || i.keyword == "ADD" {
		for _, here := range heredocs(i.rest) {
			if err := p.heredoc(here, &i.bodies); err != nil {
				return fmt.Errorf("line %d: %w", i.line, err)
			}
		}
	}
	p.file.instructions = append(p.file.instructions, i)
	return nil
}

// continued says whether a line ends with the escape character, blanks aside, and returns what is before it.
func (p *parser) continued(line string) (string, bool) {
	trimmed := strings.TrimRight(line, " \t")
	if strings.HasSuffix(trimmed, string(p.file.escape)) {
		return trimmed[:len(trimmed)-1], true
	}
	return line, false
}

// nextContinuation reads the line that continues an instruction: comments and empty lines between do not end it.
func (p *parser) nextContinuation() (string, bool) {
	for {
		line, ok := p.next()
		if !ok {
			return "", false
		}
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
			return line, true
		}
	}
}

type heredoc struct {
	name   string
	indent bool // tabs before its lines and its end are taken off
}

var heredocStart = regexp.MustCompile(`(?:^|\s)\d*<<(-?)(?:"([A-Za-z_][A-Za-z0-9_]*)"|'([A-Za-z_][A-Za-z0-9_]*)'|([A-Za-z_][A-Za-z0-9_]*))`)

func heredocs(rest string) []heredoc {
	var list []heredoc
	for _, m := range heredocStart.FindAllStringSubmatch(rest, -1) {
		list = append(list, heredoc{name: m[2] + m[3] + m[4], indent: m[1] == "-"})
	}
	return list
}

func (p *parser) heredoc(h heredoc, bodies *string) error {
	for {
		line, ok := p.next()
		if !ok {
			return fmt.Errorf("the document <<%s has no end", h.name)
		}
		*bodies += line + "\n"
		if h.indent {
			line = strings.TrimLeft(line, "\t")
		}
		if line == h.name {
			return nil
		}
	}
}
