package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
)

func TestInvalidFlagValuesAreExplained(t *testing.T) {
	tree := func(*App) *cobra.Command {
		cmd := &cobra.Command{Use: "ship", RunE: func(*cobra.Command, []string) error { return nil }}
		cmd.Flags().Bool("sail", false, "")
		cmd.Flags().Int("masts", 0, "")
		cmd.Flags().Float64("rate", 0, "")
		return cmd
	}
	for _, tt := range []struct{ args, variable, want string }{
		{"--sail=perhaps", "", `--sail takes true or false, not "perhaps"; see 'ship --help'`},
		{"--masts two", "", `--masts takes a whole number, not "two"; see 'ship --help'`},
		{"--rate much", "", `--rate takes a number, not "much"; see 'ship --help'`},
		{"", "SEALIFT_SAIL", `environment variable SEALIFT_SAIL: --sail takes true or false, not "x"`},
		{"", "SEALIFT_VERBOSE", `environment variable SEALIFT_VERBOSE: --verbose takes true or false, not "x"`},
		{"--nonsense", "", "unknown flag: --nonsense; see 'ship --help'"},
		{"--mast 2", "", "unknown flag: --mast (did you mean --masts?); see 'ship --help'"},
		{"--verbsoe", "", "unknown flag: --verbsoe (did you mean --verbose?); see 'ship --help'"},
		{"-x", "", "unknown shorthand flag: 'x' in -x; see 'ship --help'"},
	} {
		lookup := func(name string) (string, bool) { return "x", name == tt.variable }
		err := Execute(t.Context(), tree, strings.Fields(tt.args), lookup, strings.NewReader(""), io.Discard, io.Discard)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s%s: %v, want %s", tt.args, tt.variable, err, tt.want)
		}
	}
}

// TestUnsetVariablesOfScriptsAreWrongUsage runs command lines as scripts have them whose variables nobody set.
func TestUnsetVariablesOfScriptsAreWrongUsage(t *testing.T) {
	tree := func(*App) *cobra.Command {
		run := func(*cobra.Command, []string) error { return nil }
		load := &cobra.Command{Use: "load [CARGO...]", Args: cobra.ArbitraryArgs, RunE: run}
		load.Flags().String("key", "", "")
		load.Flags().StringArray("seal", nil, "")
		load.Flags().String("kubeconfig", "", "")
		load.Flags().StringSlice("programs", nil, "")
		load.Flags().String("note", "", "")
		load.Flags().String("out", "", "")
		load.Flags().String("html", "", "")
		load.Flags().String("flag", "", "")
		for _, name := range []string{"key", "seal", "kubeconfig", "programs", "flag"} {
			_ = load.MarkFlagFilename(name)
		}
		MayBeEmpty(load.Flags(), "flag")
		set := &cobra.Command{Use: "set NAME VALUE", Args: cobra.ExactArgs(2), RunE: run, Annotations: map[string]string{EmptyArguments: "true"}}
		root := &cobra.Command{Use: "ship"}
		root.AddCommand(load, set)
		return root
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"load", "--key", "a", "--seal", "b", "x"}, ""},
		{[]string{"load", "--key", ""}, "ship: --key is empty; name a file or a folder, or leave the flag out\n"},
		{[]string{"load", "--key="}, "ship: --key is empty; name a file or a folder, or leave the flag out\n"},
		{[]string{"load", "--seal", ""}, "ship: --seal is empty; name a file or a folder, or leave the flag out\n"},
		{[]string{"load", "--flag", ""}, ""},
		{[]string{"load", "--kubeconfig", "", "--note", "", "--programs="}, ""},
		{[]string{"load", "x", ""}, "ship: argument 2 is empty; the usage is 'ship load [CARGO...]'; see 'ship load --help'\n"},
		{[]string{"load", "--out", ""}, "ship: --out is empty; name a file or a folder, or leave the flag out\n"},
		{[]string{"load", "--html", "-"}, "ship: --html -: this command does not write to standard output; name a file\n"},
		{[]string{"load", "x", "--", "sh", "-c", ""}, ""},
		{[]string{"set", "flag", ""}, ""},
		{[]string{"set", "", "x"}, "ship: argument 1 is empty; the usage is 'ship set NAME VALUE'; see 'ship set --help'\n"},
	} {
		var errOut bytes.Buffer
		code := Run(t.Context(), "ship", tree, row.args, strings.NewReader(""), io.Discard, &errOut)
		if errOut.String() != row.want || (code == ExitUsage) != (row.want != "") {
			t.Errorf("%q: exit code %d, %s", row.args, code, &errOut)
		}
	}
}

// TestInputsAreNotOverwritten names one file as input and output, by the same name and by a link.
func TestInputsAreNotOverwritten(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"old", "new"} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("old", "link"); err != nil {
		t.Fatal(err)
	}
	tree := func(*App) *cobra.Command {
		load := &cobra.Command{Use: "load", Args: cobra.ArbitraryArgs, RunE: func(*cobra.Command, []string) error { return nil }}
		load.Flags().StringArray("seal", nil, "")
		load.Flags().String("since", "", "")
		load.Flags().String("note", "", "")
		load.Flags().String("out", "", "")
		for _, name := range []string{"seal", "since", "out"} {
			_ = load.MarkFlagFilename(name)
		}
		return load
	}
	for args, want := range map[string]string{
		"--since old --out new old":       "",
		"--since old --out fresh":         "",
		"--note old --out old":            "",
		"--since old --out old":           "ship: --out would replace the file that --since names; name another file\n",
		"--seal new --seal old --out old": "ship: --out would replace the file that --seal names; name another file\n",
		"--since old --out ./link":        "ship: --out would replace the file that --since names; name another file\n",
		"--out new old new":               "ship: --out would replace the file that the argument new names; name another file\n",
	} {
		var errOut bytes.Buffer
		code := Run(t.Context(), "ship", tree, strings.Fields(args), strings.NewReader(""), io.Discard, &errOut)
		if errOut.String() != want || (code == ExitUsage) != (want != "") {
			t.Errorf("%s: exit code %d, %s, want %s", args, code, &errOut, want)
		}
	}
}

func TestMistypedCommandsAreExplained(t *testing.T) {
	tree := func(*App) *cobra.Command {
		run := func(*cobra.Command, []string) error { return nil }
		root, group, runs := &cobra.Command{Use: "ship"}, &cobra.Command{Use: "cargo"}, &cobra.Command{Use: "crew", Args: cobra.NoArgs, RunE: run}
		for _, c := range []*cobra.Command{group, runs} {
			c.AddCommand(&cobra.Command{Use: "list", Args: cobra.NoArgs, RunE: run})
		}
		root.AddCommand(group, runs)
		return root
	}
	for args, want := range map[string]string{
		"carog":        `ship: unknown command "carog" for "ship" (did you mean cargo?)`,
		"cargo lsit":   `ship: unknown command "lsit" for "ship cargo" (did you mean list?)`,
		"crew lsit":    `ship: unknown command "lsit" for "ship crew" (did you mean list?)`,
		"crew nothing": `ship: unknown command "nothing" for "ship crew"; see 'ship crew --help'`,
		"crew list x":  `ship: unexpected argument "x"; the usage is 'ship crew list'; see 'ship crew list --help'`,
	} {
		var errOut bytes.Buffer
		if code := Run(t.Context(), "ship", tree, strings.Fields(args), strings.NewReader(""), io.Discard, &errOut); code != ExitUsage || errOut.String() != want+"\n" {
			t.Errorf("%s: exit code %d, %s, want %s", args, code, &errOut, want)
		}
	}
}

// TestErrorsHaveNoPasswords lets a command repeat its argument in an error.
func TestErrorsHaveNoPasswords(t *testing.T) {
	tree := func(*App) *cobra.Command {
		return &cobra.Command{Use: "ship", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			_, err := os.Open(args[0])
			return err
		}}
	}
	var errOut bytes.Buffer
	Run(t.Context(), "ship", tree, []string{"https://me:secret@host.example.com/cargo"}, strings.NewReader(""), io.Discard, &errOut)
	if want := "ship: open https://me:xxxxx@host.example.com/cargo: no such file or directory\n"; errOut.String() != want {
		t.Errorf("%s, want %s", &errOut, want)
	}
}

func TestInterruptIsNamed(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	tree := func(*App) *cobra.Command {
		return &cobra.Command{Use: "ship", RunE: func(cmd *cobra.Command, _ []string) error {
			interrupt(errors.New("interrupt signal received"))
			return fmt.Errorf("load the cargo: %w", cmd.Context().Err())
		}}
	}
	var errOut bytes.Buffer
	code := Run(ctx, "ship", tree, nil, strings.NewReader(""), io.Discard, &errOut)
	if want := "ship: load the cargo: interrupt signal received\n"; code != ExitFailed || errOut.String() != want {
		t.Errorf("exit code %d, %s, want %s", code, &errOut, want)
	}
}

// TestLostOutputIsAFailure prints a line to a full disk, with a command that does not look at the error.
func TestLostOutputIsAFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	tree := func(a *App) *cobra.Command {
		return &cobra.Command{Use: "ship", Run: func(*cobra.Command, []string) { fmt.Fprintln(a.Out, "loaded") }}
	}
	var errOut bytes.Buffer
	code := Run(t.Context(), "ship", tree, nil, strings.NewReader(""), full, &errOut)
	if want := "ship: the command is done, and its output is incomplete: write /dev/full: no space left on device\n"; code != ExitFailed || errOut.String() != want {
		t.Errorf("exit code %d, %s, want %s", code, &errOut, want)
	}
}

func TestExclusiveFlagsAreWrongUsage(t *testing.T) {
	tree := func(*App) *cobra.Command {
		cmd := &cobra.Command{Use: "ship", RunE: func(*cobra.Command, []string) error { return nil }}
		for _, name := range []string{"sail", "row", "tow"} {
			cmd.Flags().Bool(name, false, "")
		}
		cmd.MarkFlagsMutuallyExclusive("sail", "row", "tow")
		return cmd
	}
	for args, want := range map[string]string{
		"":                   "",
		"--row":              "",
		"--row --sail":       "ship: --row and --sail exclude each other; give one\n",
		"--tow --row --sail": "ship: --row and --sail and --tow exclude each other; give one\n",
	} {
		var errOut bytes.Buffer
		code := Run(t.Context(), "ship", tree, strings.Fields(args), strings.NewReader(""), io.Discard, &errOut)
		if errOut.String() != want || (code == ExitUsage) != (want != "") {
			t.Errorf("%s: exit code %d, %s", args, code, &errOut)
		}
	}
}

// TestForeignControlCharactersAreEscaped uses a command that prints a hostile cluster's text in every way that commands have.
func TestForeignControlCharactersAreEscaped(t *testing.T) {
	const hostile = "\x1b]0;mine\x07\x1b[2Jrome\u009b1A\u202e\x7f"
	tree := func(a *App) *cobra.Command {
		return &cobra.Command{Use: "look", RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(a.Out, hostile)
			fmt.Fprintln(a.Err, hostile)
			cmd.Println(hostile)
			cmd.PrintErrln(hostile)
			a.Log.Error(hostile, "cluster", hostile)
			if err := a.PrintJSON(map[string]string{"name": hostile}); err != nil {
				return err
			}
			return fmt.Errorf("cluster %s does not answer", hostile)
		}}
	}
	var out, errOut bytes.Buffer
	if code := Run(t.Context(), "sealift", tree, nil, strings.NewReader(""), &out, &errOut); code != ExitFailed {
		t.Errorf("exit code %d", code)
	}
	for name, text := range map[string]string{"standard output": out.String(), "standard error": errOut.String()} {
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || r == '\u202e' }) {
			t.Errorf("%s has control characters: %q", name, text)
		}
		if !strings.Contains(text, `\u001b]0;mine\u0007\u001b[2Jrome\u009b1A\u202e\u007f`) {
			t.Errorf("%s does not show them: %q", name, text)
		}
	}
	if !strings.Contains(errOut.String(), `sealift: cluster \u001b]0;mine`) {
		t.Errorf("the error is %q", &errOut)
	}
}
