package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

// addOutputFlag gives a command that lists something -o text|json.
func addOutputFlag(cmd *cobra.Command, format *string) {
	*format = "text"
	cmd.Flags().VarP(&choice{value: format, allowed: []string{"text", "json"}}, "output", "o", "output format: text or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// choice is a flag that takes one of a few words.
type choice struct {
	value   *string
	allowed []string
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return "format" }

func (c *choice) Set(s string) error {
	for _, word := range c.allowed {
		if s == word {
			*c.value = s
			return nil
		}
	}
	return fmt.Errorf("must be one of %v", c.allowed)
}

// printJSON writes v for machines: indented, one document, a newline at its end.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
