// Package manual writes the man pages of a program, for the packages of a release. No help shows its command.
package manual

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/sealift/sealift/cli/app"
)

// Command makes the hidden command man, which writes a page for each command of its program.
func Command() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:    "man --out DIR",
		Short:  "Write the man pages of this program",
		Long:   "Write a man page for each command of this program. Their date is that of SOURCE_DATE_EPOCH, or today.",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: root.Name() + " " + app.CurrentVersion().Version, Manual: "Sealift"}
			if err := doc.GenManTree(root, header, out); err != nil {
				return fmt.Errorf("write man pages into %s: %w", out, err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "folder of the pages")
	return cmd
}
