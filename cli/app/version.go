package app

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker at release; a build from a checkout uses the module's own.
var version = ""

type versionInfo struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// CurrentVersion describes the running program.
func CurrentVersion() versionInfo {
	v := version
	if v == "" {
		v = "devel"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
	}
	return versionInfo{Version: v, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// VersionCommand returns the command that prints it, for a program of this name.
func (a *App) VersionCommand(program string) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Long:    "Print the version of this binary, the Go release that built it and its platform.",
		Example: fmt.Sprintf("  %[1]s version\n  %[1]s version -o json", program),
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := CurrentVersion()
			if format == "json" {
				return a.PrintJSON(v)
			}
			_, err := fmt.Fprintf(a.Out, "%s %s (%s, %s)\n", program, v.Version, v.GoVersion, v.Platform)
			return err
		},
	}
	AddOutputFlag(cmd, &format)
	return cmd
}
