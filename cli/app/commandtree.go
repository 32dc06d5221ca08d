package app

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// unknownCommandError reports that an argument is not a command of its group.
type unknownCommandError struct{ text string }

func (e *unknownCommandError) Error() string { return e.text }

// UnknownCommand is the error for an unknown command, with the exit code of wrong usage.
func UnknownCommand(text string) error { return WithCode(ExitUsage, &unknownCommandError{text}) }

// NoSuchCommand refuses a word, with the commands of the group that look like it.
func NoSuchCommand(group *cobra.Command, word string) error {
	hint := fmt.Sprintf("; see '%s --help'", group.CommandPath())
	if near := group.SuggestionsFor(word); len(near) > 0 {
		hint = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
	}
	return UnknownCommand(fmt.Sprintf("unknown command %q for %q%s", word, group.CommandPath(), hint))
}

// IsUnknownCommand reports whether a command line failed because it names a command that does not exist.
func IsUnknownCommand(err error) bool {
	var unknown *unknownCommandError
	return errors.As(err, &unknown)
}

// finishTree completes a tree of commands: wrong arguments and unknown commands get the exit code of wrong usage. Cobra itself
// shows help for such a word, and succeeds.
func finishTree(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil {
				err = emptyArgument(cmd, args)
			}
			var exit *exitError
			if err == nil || errors.As(err, &exit) {
				return err
			}
			if strings.HasPrefix(err.Error(), "unknown command ") { // cobra.NoArgs calls every argument a command
				if cmd.HasSubCommands() {
					return NoSuchCommand(cmd, args[0])
				}
				err = fmt.Errorf("unexpected argument %q", args[0])
			}
			return UsageError("%v; the usage is '%s'; see '%s --help'", err, strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
		}
	}
	if cmd.Name() == "help" && cmd.Args == nil {
		cmd.Args = func(help *cobra.Command, args []string) error {
			found, rest, err := help.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return NoSuchCommand(cmp.Or(found, help.Root()), args[len(args)-max(1, len(rest))])
			}
			return nil
		}
	}
	if cmd.HasSubCommands() {
		cmd.SuggestionsMinimumDistance = 2
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return NoSuchCommand(cmd, args[0])
			}
			return nil
		}
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		hideUseLine(cmd)
	}
	for _, sub := range cmd.Commands() {
		finishTree(sub)
	}
}

// EmptyArguments is the annotation of a command whose last argument may be empty.
const EmptyArguments = "sealift.dev/empty-arguments"

// emptyArgument refuses an argument that is empty, as "$FILE" is where nobody set FILE. An argument that may be missing has a default, which
// nobody asked for then. What follows -- is another program's.
func emptyArgument(cmd *cobra.Command, args []string) error {
	if end := cmd.ArgsLenAtDash(); end >= 0 {
		args = args[:end]
	}
	at := slices.Index(args, "")
	if at < 0 || cmd.DisableFlagParsing || cmd.Annotations[EmptyArguments] != "" && at == len(args)-1 {
		return nil
	}
	return fmt.Errorf("argument %d is empty", at+1)
}

// hideUseLine leaves the line without a subcommand out of the usage of a group. Cobra's templates could do that too, but with
// them the linker keeps all methods of all types, and the node program grows by a third.
func hideUseLine(group *cobra.Command) {
	usage := group.UsageFunc()
	group.SetUsageFunc(func(cmd *cobra.Command) error { // subcommands inherit it
		if cmd == group {
			run := cmd.RunE
			cmd.RunE = nil
			defer func() { cmd.RunE = run }()
		}
		return usage(cmd)
	})
}
