// Package app is what all command lines of Sealift have in common: streams, exit codes, flags from the environment, the
// form of output, questions, and key files. It knows no command but version.
package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/internal/trust"
)

// The exit codes of every command.
const (
	ExitDone    = 0
	ExitFailed  = 1
	ExitUsage   = 2
	ExitRefused = 3
)

// exitError carries the exit code of its error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// WithCode makes the program exit with this code for an error.
func WithCode(code int, err error) error { return &exitError{code, err} }

// UsageError reports that the command line is wrong.
func UsageError(format string, args ...any) error {
	return WithCode(ExitUsage, fmt.Errorf(format, args...))
}

// App is shared by all commands: its streams, its log, and its trusted CAs.
type App struct {
	In io.Reader
	// Out and Err are for people, and for documents in JSON and YAML. They are plaintext.Writers, which escape control characters.
	Out io.Writer
	Err io.Writer
	// RawOut and RawErr pass every byte. They are for programs that take over the streams, and for content.
	RawOut, RawErr io.Writer
	Log            *slog.Logger
	// Verbose is --verbose. It is known when a command runs.
	Verbose bool
	// CAs are those of --ca-cert. They are known when a command runs.
	CAs trust.CAs
}

// Tree makes the commands of a program.
type Tree func(*App) *cobra.Command

// Command runs one command line of a program and returns its exit code.
type Command func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int

// Main runs the command line of this process and exits. The first signal cancels the context of the command, a second one
// ends the process: a kill at any moment does no harm.
func Main(command Command) {
	cobra.EnableCommandSorting = false // help has commands in the order in which they are used
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run runs one command line of a tree. Errors begin with the name of the program.
func Run(ctx context.Context, name string, tree Tree, args []string, in io.Reader, out, errOut io.Writer) int {
	err := Execute(ctx, tree, args, os.LookupEnv, in, out, errOut)
	if err == nil {
		return ExitDone
	}
	last := plaintext.NewWriter(errOut)
	defer last.Close()
	text := err.Error()
	if ctx.Err() != nil { // name the signal: errors of an interrupted command say "context canceled"
		text = strings.ReplaceAll(text, context.Canceled.Error(), context.Cause(ctx).Error())
	}
	fmt.Fprintf(last, "%s: %s\n", name, transfer.WithoutPasswords(text))
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	return ExitFailed
}

// Execute runs one command line of a tree and returns its error. Flags that are not on the command line come from lookup.
func Execute(ctx context.Context, tree Tree, args []string, lookup func(string) (string, bool), in io.Reader, out, errOut io.Writer) error {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	plainOut, plainErr := plaintext.NewWriter(out), plaintext.NewWriter(errOut)
	defer plainErr.Close()
	a := &App{
		In: in, Out: plainOut, Err: plainErr, RawOut: out, RawErr: errOut,
		Log: slog.New(slog.NewTextHandler(plainErr, &slog.HandlerOptions{Level: level})),
	}
	root := tree(a)
	a.finishRoot(root, level, lookup)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(plainOut)
	root.SetErr(plainErr)
	err := root.ExecuteContext(ctx)
	if lost := plainOut.Close(); err == nil && lost != nil {
		err = fmt.Errorf("the command is done, and its output is incomplete: %w", lost)
	}
	return hinted(err)
}

// hinted adds advice to errors whose origin cannot know it.
func hinted(err error) error {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return fmt.Errorf("%w\nif the clock of this host or of that one is wrong, set it, for instance with timedatectl set-time", err)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w\nwhere the CA of a server or a proxy is your own, name it with --%s FILE", err, caFlag)
	}
	return err
}

// finishRoot adds to a root the common parts of every command line: common flags, flags from the environment, and exit codes.
func (a *App) finishRoot(root *cobra.Command, level *slog.LevelVar, lookup func(string) (string, bool)) {
	var caCertificates string
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := errors.Join(fileNames(cmd.Flags()), flagsFromEnvironment(cmd.Flags(), lookup)); err != nil {
			return err
		}
		if err := errors.Join(exclusiveFlags(cmd), overwrittenInput(cmd, args)); err != nil {
			return err
		}
		if a.Verbose {
			level.Set(slog.LevelDebug)
		}
		a.CAs, err = readCAs(caCertificates)
		return err
	}
	root.PersistentFlags().BoolVarP(&a.Verbose, "verbose", "v", false, "log every step")
	root.PersistentFlags().StringVar(&caCertificates, caFlag, "", "file with CA certificates to trust in addition to the system's; new nodes trust them too")
	_ = root.MarkPersistentFlagFilename(caFlag, "pem", "crt")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return UsageError("%v%s; see '%s --help'", plainFlagError(err), flagHint(cmd, err), cmd.CommandPath())
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	finishTree(root)
}

// Group is commands that belong together. One without an ID has no heading in the help.
type Group struct {
	ID, Title string
	Commands  []*cobra.Command
}

// AddGroups adds commands to a root, by groups.
func AddGroups(root *cobra.Command, groups ...Group) {
	for _, g := range groups {
		if g.ID != "" {
			root.AddGroup(&cobra.Group{ID: g.ID, Title: g.Title})
		}
		for _, cmd := range g.Commands {
			cmd.GroupID = g.ID
			root.AddCommand(cmd)
		}
	}
}

// EnvironmentName is the variable that stands for a flag.
func EnvironmentName(flag string) string {
	return "SEALIFT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// flagsFromEnvironment sets each missing flag from SEALIFT_<FLAG>, dashes as underscores.
func flagsFromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := EnvironmentName(f.Name)
		value, ok := lookup(name)
		if !ok || f.Changed {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, UsageError("environment variable %s: %v", name, plainFlagError(err)))
		}
	})
	return errors.Join(errs...)
}

// fileNames refuses flags on the command line whose file has no name, such as --key "$KEY" where nobody set KEY. Without the key, a command
// would succeed and sign nothing. The name of a kubeconfig may be empty, as for kubectl, and so may a list between commas.
func fileNames(flags *pflag.FlagSet) error {
	var errs []error
	flags.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		_, resets := f.Annotations[emptyFlag]
		if (isFile(f) || isOutput(f)) && !resets && f.Name != "kubeconfig" && (value == "" || value == "[]" && f.Value.Type() == "stringArray") {
			errs = append(errs, UsageError("--%s is empty; name a file or a folder, or leave the flag out", f.Name))
		}
		if isOutput(f) && value == "-" && f.DefValue != "-" {
			errs = append(errs, UsageError("--%s -: this command does not write to standard output; name a file", f.Name))
		}
	})
	return errors.Join(errs...)
}

// emptyFlag is the annotation of a flag that MayBeEmpty named.
const emptyFlag = "sealift.dev/empty"

// MayBeEmpty lets flags for files have an empty value, which takes an earlier setting back.
func MayBeEmpty(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, emptyFlag, nil)
	}
}

func isFile(f *pflag.Flag) bool {
	_, ok := f.Annotations[cobra.BashCompFilenameExt]
	return ok
}

// isOutput reports whether a flag names what a command writes.
func isOutput(f *pflag.Flag) bool { return f.Name == "out" || f.Name == "html" }

// overwrittenInput refuses to write to a file that the command reads, as 'bundle --since OLD --out OLD' does: the earlier bundle, without
// which the new one cannot be installed, would be gone.
func overwrittenInput(cmd *cobra.Command, args []string) error {
	type input struct{ what, name string }
	var inputs []input
	for _, arg := range args {
		inputs = append(inputs, input{"the argument " + arg, arg})
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !isFile(f) || isOutput(f) {
			return
		}
		names := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			names = several.GetSlice()
		}
		for _, name := range names {
			inputs = append(inputs, input{"--" + f.Name, name})
		}
	})
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		out, err := os.Stat(f.Value.String())
		if err != nil || !isOutput(f) || !isFile(f) || !out.Mode().IsRegular() {
			return
		}
		for _, in := range inputs {
			if info, err := os.Stat(in.name); err == nil && os.SameFile(out, info) {
				errs = append(errs, UsageError("--%s would replace the file that %s names; name another file", f.Name, in.what))
			}
		}
	})
	return errors.Join(errs...)
}

// flagHint names the flag that a mistyped one is like.
func flagHint(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	var all []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f.Name) })
	near := diag.Nearest(unknown.GetSpecifiedName(), all)
	if near == "" {
		return ""
	}
	return " (did you mean --" + near + "?)"
}

// exclusiveFlags refuses flags that exclude each other: see cobra's MarkFlagsMutuallyExclusive. Cobra itself checks them later, and without
// the exit code of wrong usage.
func exclusiveFlags(cmd *cobra.Command) error {
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	_, given, _ := strings.Cut(err.Error(), "none of the others can be; [")
	given, found := strings.CutSuffix(given, "] were all set")
	if !found {
		return UsageError("%v; see '%s --help'", err, cmd.CommandPath())
	}
	return UsageError("--%s exclude each other; give one", strings.Join(strings.Fields(given), " and --"))
}

// plainFlagError replaces the error of a Go function with one that says which values a flag takes.
func plainFlagError(err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	f := invalid.GetFlag()
	wanted := "a number"
	switch f.Value.Type() {
	case "bool":
		wanted = "true or false"
	case "int":
		wanted = "a whole number"
	}
	return fmt.Errorf("--%s takes %s, not %q", f.Name, wanted, invalid.GetValue())
}
