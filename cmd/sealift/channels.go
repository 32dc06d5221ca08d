package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// channelsName is the name by which this program is the tool of kOps.
const channelsName = "channels"

// runChannels executes a command line of kOps's tool, with its way to tell errors.
func runChannels(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	lookup, err := channelsConfig(os.Getenv("HOME"))
	if err == nil {
		err = execute(ctx, append([]string{"channel"}, args...), lookup, in, out, errOut)
	}
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(errOut, "\n%v\n", err)
	return exitFailed
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
		settings[environmentName(flag)] = text
	}
	return func(name string) (string, bool) {
		if value, ok := os.LookupEnv(name); ok {
			return value, true
		}
		value, ok := settings[name]
		return value, ok
	}, nil
}
