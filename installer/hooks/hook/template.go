package hook

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// style is the form in which kURL's shell would evaluate a template.
type style string

const (
	documentStyle style = "document" // the text of a here document
	quotedStyle   style = "quoted"   // the text between double quotes, given to echo
)

// part is a part of a template: text, a variable, or a call of date.
type part struct {
	text     string
	variable string
	operator string // of ${NAME:-word}: "", ":-", "-", ":+" or "+"
	word     string
	date     []string // its arguments; nil for another part
}

var (
	variablePart = regexp.MustCompile(`^\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+])([^${}\x60]*))?\}|([A-Za-z_][A-Za-z0-9_]*))`)
	// datePart is the only command in kURL's templates (kURL §4.4); here it only prints the time.
	datePart = regexp.MustCompile(`^\$\(date((?: +(?:-u|--utc|-R|-I[a-z]*|\+[-A-Za-z0-9%:_./,]+))*) *\)`)
)

// parseTemplate reads a template as the shell would, except that nothing in it is code: a command substitution is the text that
// it is. In the quoted style double quotes vanish, and blanks between two of them become one (kURL §4.2, render_yaml_file).
func parseTemplate(text string, s style) []part {
	var parts []part
	var plain strings.Builder
	add := func(p part) {
		if plain.Len() > 0 {
			parts = append(parts, part{text: plain.String()})
			plain.Reset()
		}
		parts = append(parts, p)
	}
	bare := false // between two double quotes, which the shell reads as outside of them
	for text != "" {
		c := text[0]
		if c == '$' {
			if p, length := expansion(text); length > 0 {
				add(p)
				text = text[length:]
				continue
			}
		}
		switch {
		case c == '\\' && len(text) > 1 && (bare || escapes(text[1], s)):
			if text[1] != '\n' {
				plain.WriteByte(text[1])
			}
			text = text[2:]
		case c == '"' && s == quotedStyle:
			bare = !bare
			text = text[1:]
		case bare && (c == ' ' || c == '\t'):
			plain.WriteByte(' ')
			text = strings.TrimLeft(text, " \t")
		default:
			plain.WriteByte(c)
			text = text[1:]
		}
	}
	if plain.Len() > 0 {
		parts = append(parts, part{text: plain.String()})
	}
	return parts
}

// escapes reports whether a backslash before c goes.
func escapes(c byte, s style) bool {
	return c == '$' || c == '`' || c == '\\' || c == '\n' || c == '"' && s == quotedStyle
}

// expansion reads an expansion after a dollar, if it is one.
func expansion(text string) (part, int) {
	if m := variablePart.FindStringSubmatch(text); m != nil {
		// in the word of a default double quotes vanish, in either style, and single ones do not
		return part{variable: m[1] + m[4], operator: m[2], word: strings.ReplaceAll(m[3], `"`, "")}, len(m[0])
	}
	if m := datePart.FindStringSubmatch(text); m != nil {
		return part{date: append([]string{}, strings.Fields(m[1])...)}, len(m[0])
	}
	return part{}, 0
}

// templateNames prints the variables that a template names, one a line.
func templateNames(_ context.Context, args []string, out io.Writer) error {
	if err := wants(args, 1, "render a template"); err != nil {
		return err
	}
	text, err := readText(args[0])
	if err != nil {
		return err
	}
	var names []string
	for _, p := range parseTemplate(text, documentStyle) {
		if p.variable != "" && !slices.Contains(names, p.variable) {
			names = append(names, p.variable)
		}
	}
	_, err = io.WriteString(out, strings.Join(names, "\n"))
	return err
}

// templateRender prints a template with its variables' values: style, file, then names and values by turns.
func templateRender(ctx context.Context, args []string, out io.Writer) error {
	if err := wants(args, 2, "render a template"); err != nil {
		return err
	}
	text, err := readText(args[1])
	if err != nil {
		return err
	}
	values := make(map[string]string)
	for i := 2; i+1 < len(args); i += 2 {
		values[args[i]] = args[i+1]
	}
	for _, p := range parseTemplate(text, style(args[0])) {
		said := p.value(values)
		if p.date != nil {
			if said, err = date(ctx, p.date); err != nil {
				return fmt.Errorf("%s: %w", args[1], err)
			}
		}
		if _, err := io.WriteString(out, said); err != nil {
			return err
		}
	}
	return nil
}

// value is the value of a part. An unset variable is empty, as in the shell.
func (p part) value(values map[string]string) string {
	if p.variable == "" {
		return p.text
	}
	value := values[p.variable]
	switch p.operator {
	case ":-", "-":
		if value == "" {
			return p.word
		}
	case ":+", "+":
		if value == "" {
			return ""
		}
		return p.word
	}
	return value
}

func date(ctx context.Context, args []string) (string, error) {
	said, err := exec.CommandContext(ctx, "date", args...).Output()
	if err != nil {
		return "", fmt.Errorf("date %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(said), "\n"), nil
}
