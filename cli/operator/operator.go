package operator

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/operator"
)

// operatorCommand groups the commands of the operator. called is the command line that reaches it.
func (a commands) operatorCommand(use, called string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: "Run hooks of shell-operator and modules of addon-operator in a cluster",
		Long: "Run hooks of Flant's shell-operator and modules of addon-operator unchanged, and look at what they do.\n" +
			"docs/operator.md describes both.",
	}
	cmd.AddCommand(a.startCommand(called), a.queueCommand(called), a.globalCommand(called), a.moduleCommand(called),
		a.hookCommand(called), a.configCommand(called), a.rawCommand(called))
	return cmd
}

// debugFlags say where the operator runs, and in which form it answers.
type debugFlags struct{ socket, format string }

// add defines the flags. example shows how a user calls the command, and so which operator is meant.
func (f *debugFlags) add(cmd *cobra.Command, formats, fallback, example string) {
	f.addSocket(cmd, example)
	f.format = fallback
	words := strings.Split(strings.ReplaceAll(formats, " or ", ", "), ", ")
	cmd.Flags().VarP(app.NewChoice(&f.format, words), "output", "o", "output format: "+formats)
}

func (f *debugFlags) addSocket(cmd *cobra.Command, example string) {
	socket := defaultSocket
	if strings.HasPrefix(example, AddonOperatorName) {
		socket = addonSocket
	}
	cmd.Flags().StringVar(&f.socket, "debug-unix-socket", fromEnvironment("DEBUG_UNIX_SOCKET", socket), "socket of the operator")
}

// ask prints the operator's response for a path without its format.
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
	f.add(list, "text, yaml or json", "text", called)
	list.Flags().BoolVarP(&empty, "show-empty", "e", false, "also list queues without tasks")
	var m debugFlags
	main := &cobra.Command{
		Use:     "main",
		Short:   "List the tasks of the main queue",
		Example: fmt.Sprintf("  %s queue main", called),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ask(cmd, m, "/queue/main", "") },
	}
	m.add(main, "text, yaml or json", "text", called)
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
	f.add(list, "text, yaml or json", "text", called)
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
	s.add(snapshot, "yaml or json", "yaml", called)
	group.AddCommand(list, snapshot)
	return group
}

func (a commands) configCommand(called string) *cobra.Command {
	group := &cobra.Command{Use: "config", Short: "Settings that can be changed while an operator runs"}
	var f debugFlags
	set := &cobra.Command{
		Use:     "set NAME VALUE",
		Short:   "Change a setting until the operator ends",
		Example: fmt.Sprintf("  %s config set log.level debug", called),
		Args:    cobra.ExactArgs(2),

		Annotations: map[string]string{app.EmptyArguments: "true"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return operator.Set(cmd.Context(), f.socket, args[0], args[1])
		},
	}
	f.addSocket(set, called)
	group.AddCommand(a.lookCommand("list", "List the settings", called+" config list", "/config/list", "text, yaml or json", "text"), set)
	return group
}

func (a commands) rawCommand(called string) *cobra.Command {
	var f debugFlags
	cmd := &cobra.Command{
		Use:     "raw PATH",
		Short:   "Print what a running operator answers for a path of its socket",
		Example: fmt.Sprintf("  %s raw /queue/list.json", called),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := operator.Debug(cmd.Context(), f.socket, "/"+strings.TrimPrefix(args[0], "/"))
			if err != nil {
				return err
			}
			_, err = a.Out.Write(data)
			return err
		},
	}
	f.addSocket(cmd, called)
	return cmd
}
