package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/cli/app"
)

// ChannelsName is the name by which this program is the tool of kOps.
const ChannelsName = "channels"

// RunChannels executes a command line of kOps's tool, with its error codes: 1 is any failure, and only an unknown command is
// distinguished.
func RunChannels(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	args, notes := withoutKopsFlags(args)
	for _, note := range notes {
		fmt.Fprintln(errOut, note)
	}
	lookup, err := channelsConfig(os.Getenv("HOME"))
	if err == nil {
		err = app.Execute(ctx, Channels, args, lookup, in, out, errOut)
	}
	switch {
	case err == nil:
		return app.ExitDone
	case app.IsUnknownCommand(err):
		fmt.Fprintf(errOut, "\n%v\n", err)
		return app.ExitUsage
	}
	fmt.Fprintf(errOut, "\n%v\n", err)
	return app.ExitFailed
}

// Channels is the tree of kOps's tool: the channel commands at the top, under its name.
func Channels(a *app.App) *cobra.Command {
	root := commands{a}.channelCommand()
	for _, cmd := range append(root.Commands(), root) {
		cmd.Long = strings.ReplaceAll(cmd.Long, "sealift channel", ChannelsName)
		cmd.Example = strings.ReplaceAll(cmd.Example, "sealift channel", ChannelsName)
		cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "sealift channel", ChannelsName) })
	}
	root.Use = ChannelsName
	root.Long, _, _ = strings.Cut(root.Long, "\n\nCalled by the name")
	return root
}

// kopsFlag is a flag of kOps's tool that has no meaning here.
type kopsFlag struct {
	value bool   // it takes one
	note  string // what its absence changes; empty where that is nothing
}

// kopsFlags are the flags of kOps's tool, by name, that do nothing here: those of its log, and those of its host.
func kopsFlags() map[string]kopsFlag {
	return map[string]kopsFlag{
		"v": {value: true}, "vmodule": {value: true}, "stderrthreshold": {value: true},
		"logtostderr": {}, "alsologtostderr": {}, "one_output": {}, "add_dir_header": {}, "skip_headers": {}, "skip_log_headers": {},
		"log_backtrace_at": {value: true}, "log_dir": {value: true}, "log_file": {value: true}, "log_file_max_size": {value: true},
		"config":      {value: true, note: "flags are read from ~/.channels.yaml"},
		"node-name":   {value: true, note: "no node is changed"},
		"node-labels": {value: true, note: "no node is labelled; label it with 'kubectl label node'"},
	}
}

// withoutKopsFlags removes the flags of kOps's tool from a command line, and reports where that changes its effect.
func withoutKopsFlags(args []string) (rest, notes []string) {
	known := kopsFlags()
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(rest, args[i:]...), notes
		}
		name, _, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[i], "-"), "-"), "=")
		flag, ok := known[name]
		number := i+1 < len(args) && isNumber(args[i+1])
		switch {
		case strings.HasPrefix(args[i], "-v") && isNumber(args[i][2:]): // -v4
			continue
		case !ok || !strings.HasPrefix(args[i], "-"), args[i] == "-v" && !number: // -v alone is our flag
			rest = append(rest, args[i])
			continue
		case flag.value && !given:
			i++ // its value follows
		}
		if flag.note != "" {
			notes = append(notes, fmt.Sprintf("--%s is ignored: %s", name, flag.note))
		}
	}
	return rest, notes
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// channelsConfig reads $HOME/.channels.yaml, which may set flags; the environment goes before it.
func channelsConfig(home string) (func(string) (string, bool), error) {
	file := filepath.Join(home, ".channels.yaml")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return os.LookupEnv, nil
	}
	var values map[string]any
	if err == nil {
		err = yaml.Unmarshal(data, &values)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	settings := map[string]string{}
	for flag, value := range values {
		text := fmt.Sprint(value)
		if list, ok := value.([]any); ok {
			words := make([]string, len(list))
			for i, word := range list {
				words[i] = fmt.Sprint(word)
			}
			text = strings.Join(words, ",")
		}
		settings[app.EnvironmentName(flag)] = text
	}
	return func(name string) (string, bool) {
		if value, ok := os.LookupEnv(name); ok {
			return value, true
		}
		value, ok := settings[name]
		return value, ok
	}, nil
}
