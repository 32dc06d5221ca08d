package dockerfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// maxSize bounds a Dockerfile, in bytes.
const maxSize = 1 << 20

// instruction is one instruction with the lines that it takes.
type instruction struct {
	line    int      // of its start, from 1
	keyword string   // in upper case
	rest    string   // what follows the keyword, lines joined, without the bodies of heredocs
	words   []string // of an exec form, which is a list in JSON
	bodies  string   // of heredocs, each line with its end
}

// File is a parsed Dockerfile.
type File struct {
	escape       rune
	instructions []instruction
}

// Parse reads a Dockerfile with the parser of BuildKit. What instructions mean is left to the engine.
func Parse(r io.Reader) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("larger than %d bytes", maxSize)
	}
	parsed, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		return nil, withLine(err)
	}
	f := &File{escape: parsed.EscapeToken}
	for _, node := range parsed.AST.Children {
		in := read(node)
		if in.keyword == "" || strings.Trim(in.keyword, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return nil, fmt.Errorf("line %d: %q is not an instruction", in.line, node.Value)
		}
		f.instructions = append(f.instructions, in)
	}
	return f, nil
}

// withLine puts the line of a mistake before the parser's message.
func withLine(err error) error {
	var located *parser.LocationError
	if errors.As(err, &located) && len(located.Locations) > 0 && len(located.Locations[0]) > 0 {
		if line := located.Locations[0][0].Start.Line; line > 0 {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	return err
}

func read(node *parser.Node) instruction {
	in := instruction{line: node.StartLine, keyword: strings.ToUpper(node.Value)}
	in.rest = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(node.Original), node.Value))
	if node.Attributes["json"] {
		for word := node.Next; word != nil; word = word.Next {
			in.words = append(in.words, word.Value)
		}
	}
	for _, doc := range node.Heredocs {
		in.bodies += doc.Content + doc.Name + "\n"
	}
	return in
}

// isRun reports whether a text, after RUN, is one instruction that ends with its line.
func (f *File) isRun(text string) bool {
	parsed, err := parser.Parse(strings.NewReader(fmt.Sprintf("# escape=%c\nRUN %s\nRUN true\n", f.escape, text)))
	return err == nil && len(parsed.AST.Children) == 2 && len(parsed.AST.Children[0].Heredocs) == 0
}
