package app

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/internal/plaintext"
)

// AddOutputFlag adds -o to a command that prints a result, with text, json and the command's further formats.
func AddOutputFlag(cmd *cobra.Command, format *string, further ...string) {
	*format = "text"
	formats := append([]string{"text", "json"}, further...)
	last := len(formats) - 1
	cmd.Flags().VarP(NewChoice(format, formats), "output", "o", "output format: "+strings.Join(formats[:last], ", ")+" or "+formats[last])
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// choice is a flag that takes one of a few words.
type choice struct {
	value   *string
	allowed []string
}

// NewChoice makes a flag that takes one of a few words. The value is its default.
func NewChoice(value *string, allowed []string) pflag.Value { return &choice{value, allowed} }

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return "format" }

func (c *choice) Set(s string) error {
	if slices.Contains(c.allowed, s) {
		*c.value = s
		return nil
	}
	return fmt.Errorf("must be one of %v", c.allowed)
}

// PrintJSON writes v for machines: indented, one document, a newline at its end.
func (a *App) PrintJSON(v any) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Print prints a result: document for programs, or text, which prints the same facts for people.
func (a *App) Print(format string, document any, text func() error) error {
	if format == "json" {
		return a.PrintJSON(document)
	}
	return text()
}

// Notes returns where a command prints notes such as its progress: beside the result for people, but not into a document for programs.
func (a *App) Notes(format string) io.Writer {
	if format == "json" {
		return a.Err
	}
	return a.Out
}

// ProgramOutput returns where a command prints the output of its programs, in addition to the log file: nil without --verbose.
func (a *App) ProgramOutput() io.Writer {
	if !a.Verbose {
		return nil
	}
	return a.Err
}

// FormatBytes writes a size in bytes as people read it.
func FormatBytes(n int64) string { return plaintext.Bytes(n) }

// Counted is "1 error", "2 errors".
func Counted(n int, what string) string { return plaintext.Count(n, what) }
