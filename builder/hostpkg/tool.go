package hostpkg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/sealift/sealift/builder/tool"
)

// toolError is the message of a failed tool.
type toolError struct {
	command  string
	messages []string
	err      error
}

func (e *toolError) Error() string {
	if len(e.messages) == 0 {
		return fmt.Sprintf("%s: %v", e.command, e.err)
	}
	return fmt.Sprintf("%s: %s", e.command, strings.Join(e.messages, "; "))
}

func (e *toolError) Unwrap() error { return e.err }

// execute runs a tool and passes its output to read, which may stop before the end. If the tool fails, messages picks the errors
// out of its standard error.
func execute(ctx context.Context, cmd *exec.Cmd, messages func(said []byte) []string, read func(io.Reader) error) error {
	err := tool.Run(ctx, cmd, read)
	if failed, ok := errors.AsType[*tool.Error](err); ok {
		return &toolError{command: failed.Command, messages: messages(failed.Said), err: failed.Err}
	}
	return err
}

// environment keeps the variables that a tool needs to reach the network and none that could change its results.
func environment(all []string) []string {
	kept := []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		switch strings.ToLower(name) {
		case "path", "home", "tmpdir", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy":
			kept = append(kept, v)
		}
	}
	return kept
}

// find looks for a tool; of is the package that contains it.
func find(name, given, of string) (string, error) {
	if given != "" {
		return given, nil
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is needed to resolve dependencies of packages: %w; install the package %s, or leave the target out with --target", name, err, of)
	}
	return found, nil
}
