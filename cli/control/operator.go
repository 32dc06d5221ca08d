package control

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/operator"
)

// operatorCommand groups the commands of the operator; called is how a user calls it.
func (a commands) operatorCommand(use, called string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: "Run hooks of shell-operator in a cluster",
		Long:  "Run hooks of Flant's shell-operator unchanged, and look at what they do. docs/operator.md says what is there.",
	}
	cmd.AddCommand(a.startCommand(called), a.queueCommand(called), a.hookCommand(called), a.rawCommand(called))
	return cmd
}

// debugFlags say where the operator runs, and in which form it answers.
type debugFlags struct{ socket, format string }

func (f *debugFlags) add(cmd *cobra.Command, formats, fallback string) {
	cmd.Flags().StringVar(&f.socket, "debug-unix-socket", fromEnvironment("DEBUG_UNIX_SOCKET", defaultSocket), "socket of the operator")
	cmd.Flags().StringVarP(&f.format, "output", "o", fallback, "output format: "+formats)
}

// ask prints what the operator answers for a path without its format.
func (a commands) ask(cmd *cobra.Command, f debugFlags, path, query string) error {
	data, err := operator.Debug(cmd.Context(), f.socket, path+"."+f.format+query)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(data)
	return err
}

func (a commands) queueCommand(called string) *cobra.Command {
	group := &cobra.Command{Use: "queue", Short: "Look at the queues of a running operator"}
	var f debugFlags
	var empty bool
	list := &cobra.Command{
		Use:     "list",
		Short:   "List all queues with their tasks, the first to run first",
		Example: fmt.Sprintf("  %[1]s queue list\n  %[1]s queue list -o json --show-empty", called),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := ""
			if empty {
				query = "?showEmpty=true"
			}
			return a.ask(cmd, f, "/queue/list", query)
		},
	}
	f.add(list, "text, yaml or json", "text")
	list.Flags().BoolVarP(&empty, "show-empty", "e", false, "also list queues without tasks")
	var m debugFlags
	main := &cobra.Command{
		Use:     "main",
		Short:   "List the tasks of the main queue",
		Example: fmt.Sprintf("  %s queue main", called),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ask(cmd, m, "/queue/main", "") },
	}
	m.add(main, "text, yaml or json", "text")
	group.AddCommand(list, main)
	return group
}

func (a commands) hookCommand(called string) *cobra.Command {
	group := &cobra.Command{Use: "hook", Short: "Look at the hooks of a running operator"}
	var f debugFlags
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the hooks with their bindings",
		Example: fmt.Sprintf("  %s hook list", called),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ask(cmd, f, "/hook/list", "") },
	}
	f.add(list, "text, yaml or json", "text")
	var s debugFlags
	snapshot := &cobra.Command{
		Use:   "snapshot HOOK",
		Short: "Print the objects that a hook sees, by its bindings",
		Long: `Print the objects that a hook sees, by its bindings. They may be Secrets, so only the owner of the operator's socket can
ask for them.`,
		Example: fmt.Sprintf("  %s hook snapshot pods.sh -o json", called),
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.ask(cmd, s, "/hook/"+args[0]+"/snapshots", "") },
	}
	s.add(snapshot, "yaml or json", "yaml")
	group.AddCommand(list, snapshot)
	return group
}

func (a commands) rawCommand(called string) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:     "raw PATH",
		Short:   "Print what the debug socket answers for a path",
		Example: fmt.Sprintf("  %s raw /queue/list.json", called),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := operator.Debug(cmd.Context(), socket, "/"+strings.TrimPrefix(args[0], "/"))
			if err != nil {
				return err
			}
			_, err = a.Out.Write(data)
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "debug-unix-socket", fromEnvironment("DEBUG_UNIX_SOCKET", defaultSocket), "socket of the operator")
	return cmd
}
