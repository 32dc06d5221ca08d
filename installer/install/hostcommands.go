package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/regularfile"
)

// hostCommandsStep runs an Installer's settings for programs of the host.
const hostCommandsStep = "node/commands"

// commands adds the step, when there is something for it.
func (p *planner) commands() {
	mode := p.settings.selinux
	var calls [][]string
	for _, c := range p.spec.HostCommands() {
		calls = append(calls, c.Words)
	}
	if len(calls) == 0 && mode == "" {
		return
	}
	p.add(lifecycle.Step{ID: hostCommandsStep, Phase: lifecycle.PreInit, Title: "run the commands that the Installer has for the firewall and SELinux",
		Timeout: shortTime, Inputs: lifecycle.Digest(calls, mode)}, (*Install).runCommands)
}

func (i *Install) runCommands(ctx context.Context) (lifecycle.State, error) {
	if err := i.setSELinux(ctx); err != nil {
		return nil, err
	}
	for _, call := range i.spec.HostCommands() {
		if err := command.Run(ctx, i.Log, call.Words[0], call.Words[1:]...); err != nil {
			return nil, fmt.Errorf("%s: %w", call.Field, err)
		}
	}
	return nil, nil
}

const selinuxConfig = "/etc/selinux/config"

var selinuxMode = regexp.MustCompile(`(?m)^SELINUX=.*$`)

// checkSELinux refuses an unknown mode, before anything is changed.
func (j *job) checkSELinux() error {
	modes := []string{"enforcing", "permissive", "disabled"}
	if mode := j.settings.selinux; mode != "" && !slices.Contains(modes, mode) {
		return unmetf("it can be "+strings.Join(modes, ", "), "the Installer's selinuxConfig.selinux is %q", mode)
	}
	return nil
}

// setSELinux sets the mode now and for the next start. It cannot be switched off before that: until then it only warns.
func (i *Install) setSELinux(ctx context.Context) error {
	mode := i.settings.selinux
	if mode == "" {
		return nil
	}
	text, err := regularfile.ReadFile(selinuxConfig)
	if errors.Is(err, fs.ErrNotExist) { // a host without SELinux
		return nil
	}
	if err != nil {
		return err
	}
	if err := files.Write(selinuxConfig, selinuxMode.ReplaceAll(text, []byte("SELINUX="+mode))); err != nil {
		return err
	}
	_, err = os.Stat("/sys/fs/selinux/enforce")
	if errors.Is(err, fs.ErrNotExist) { // it is switched off, until the host boots again
		return nil
	}
	if err != nil {
		return err
	}
	if mode == "enforcing" {
		return command.Run(ctx, i.Log, "setenforce", "1")
	}
	return command.Run(ctx, i.Log, "setenforce", "0")
}
