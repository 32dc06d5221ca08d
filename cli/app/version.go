package app

import (
	"crypto/fips140"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/internal/fips"
)

// version is set by the linker at release; a build from a checkout uses the module's own.
var version = ""

type versionInfo struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
	// FIPS is Go's module for FIPS 140-3, such as "v1.0.0, active", of a program that was built with one.
	FIPS string `json:"fips140,omitempty"`
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
	return versionInfo{Version: v, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, FIPS: fipsModule()}
}

// fipsModule describes the module for FIPS 140-3 that this program has, or returns "".
func fipsModule() string {
	if fips140.Version() == "latest" { // the toolchain's own code, which nobody has certified
		return ""
	}
	return fips.Module{Name: fips140.Version(), Active: fips140.Enabled()}.String()
}

// VersionCommand returns the command that prints it, for a program of this name.
func (a *App) VersionCommand(program string) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Long:    "Print the version of this binary, the Go release that built it, its platform, and its FIPS 140-3 module if it has one.",
		Example: fmt.Sprintf("  %[1]s version\n  %[1]s version -o json", program),
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := CurrentVersion()
			if format == "json" {
				return a.PrintJSON(v)
			}
			module := ""
			if v.FIPS != "" {
				module = ", FIPS 140-3 module " + v.FIPS
			}
			_, err := fmt.Fprintf(a.Out, "%s %s (%s, %s%s)\n", program, v.Version, v.GoVersion, v.Platform, module)
			return err
		},
	}
	AddOutputFlag(cmd, &format)
	return cmd
}
