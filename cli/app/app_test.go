package app

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestValuesOfFlagsAreRefusedInPlainWords(t *testing.T) {
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
