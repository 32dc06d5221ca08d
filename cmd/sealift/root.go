package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit codes of every command.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
)

// exitError carries the exit code that its error asks for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError says that the command line, not the work, is wrong.
func usageError(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// app is what every command shares: its streams and its log.
type app struct {
	in     io.Reader
	out    io.Writer
	errOut io.Writer
	log    *slog.Logger
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	err := execute(ctx, (*app).rootCommand, args, os.LookupEnv, in, out, errOut)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(errOut, "sealift: %v\n", err)
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return exitFailed
}

// execute runs one command line of a tree; lookup gives the flags that it leaves to the environment.
func execute(ctx context.Context, tree func(*app) *cobra.Command, args []string, lookup func(string) (string, bool), in io.Reader, out, errOut io.Writer) error {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	a := &app{in: in, out: out, errOut: errOut, log: slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: level}))}
	root := tree(a)
	finishRoot(root, level, lookup)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	return hinted(root.ExecuteContext(ctx))
}

// hinted adds the way out to errors whose makers cannot know it.
func hinted(err error) error {
	var stranger *tls.CertificateVerificationError
	if errors.As(err, &stranger) {
		return fmt.Errorf("%w\nwhere the CA of a server or a proxy is your own, name it with --%s FILE", err, caFlag)
	}
	return err
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sealift",
		Short: "Carry Kubernetes and its add-ons across an air gap",
		Long: `Sealift turns add-on directories with a Manifest into sealed packages, packages into one bundle,
and a bundle into a running Kubernetes cluster on hosts that have no route out.

Every flag may also be given as an environment variable: --out is SEALIFT_OUT, --cache is SEALIFT_CACHE.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused by preflight checks.`,
	}
	a.addCommands(root)
	return root
}

// finishRoot gives a root what every command line has: common flags, flags from the environment, and exit codes.
func finishRoot(root *cobra.Command, level *slog.LevelVar, lookup func(string) (string, bool)) {
	var verbose bool
	var caCertificates string
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := flagsFromEnvironment(cmd.Flags(), lookup); err != nil {
			return err
		}
		if verbose {
			level.Set(slog.LevelDebug)
		}
		return trust(caCertificates)
	}
	root.PersistentFlags().BoolVarP(&verbose, "verbose", "v", false, "log what is being done, step by step")
	root.PersistentFlags().StringVar(&caCertificates, caFlag, "", "file with certificates of CAs to trust besides the system's; nodes that are made trust them, too")
	_ = root.MarkPersistentFlagFilename(caFlag, "pem", "crt")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%v; see '%s --help'", err, cmd.CommandPath())
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	finishTree(root)
}

// group is commands that belong together.
type group struct {
	id, title string
	commands  []*cobra.Command
}

// groups lists every command, in the order in which a package travels.
func (a *app) groups() []group {
	return []group{
		{"build", "Build packages:", []*cobra.Command{
			a.manifestCommand(), a.addonCommand(), a.lockCommand(), a.buildCommand(), a.keyCommand(), a.cacheCommand(),
			a.inspectCommand(), a.verifyCommand(), a.importCommand(), a.publishCommand(),
		}},
		{"carry", "Carry them:", []*cobra.Command{a.specCommand(), a.bundleCommand(), a.serveCommand()}},
		{"install", "Install a node:", []*cobra.Command{
			a.preflightCommand(), a.installCommand(), a.tokenCommand(), a.joinCommand(), a.statusCommand(), a.journalCommand(),
			a.supportBundleCommand(), a.imagesCommand(), a.nodeCommand(), a.resetCommand(),
		}},
		{"keep", "Keep a cluster right:", []*cobra.Command{a.applyCommand(), a.channelCommand()}},
		{"", "", []*cobra.Command{a.hookCommand(), a.testgridCommand(), a.versionCommand()}},
	}
}

// addCommands gives the root all commands, by groups.
func (a *app) addCommands(root *cobra.Command) {
	for _, g := range a.groups() {
		if g.id != "" {
			root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		}
		for _, cmd := range g.commands {
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
}

// environmentName is the variable that stands for a flag.
func environmentName(flag string) string {
	return "SEALIFT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// flagsFromEnvironment sets each flag that was not given from SEALIFT_<FLAG>, dashes as underscores.
func flagsFromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := environmentName(f.Name)
		value, ok := lookup(name)
		if !ok || f.Changed {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, usageError("environment variable %s: %v", name, err))
		}
	})
	return errors.Join(errs...)
}
