package app

import (
	"bytes"
	"fmt"
	"io"
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
	} {
		lookup := func(name string) (string, bool) { return "x", name == tt.variable }
		err := Execute(t.Context(), tree, strings.Fields(tt.args), lookup, strings.NewReader(""), io.Discard, io.Discard)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s%s: %v, want %s", tt.args, tt.variable, err, tt.want)
		}
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
