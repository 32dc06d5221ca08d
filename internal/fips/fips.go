// Package fips reads from the build record of a Go program which module for FIPS 140-3 it was linked with, and whether the module is
// active (https://go.dev/doc/security/fips140). It also lists what Sealift itself does with algorithms that are not approved, and refuses that in
// FIPS mode.
//
// The package judges Go programs alone. Programs in other languages take their cryptography from the libraries of their distribution.
package fips

import (
	"runtime/debug"
	"strings"
)

// Boring is the name of the module of toolchains with BoringCrypto. It is active in every program that has it.
const Boring = "BoringCrypto"

// Module is the module of a program. The zero value is that of a program without one.
type Module struct {
	// Name is the version of Go's own module, such as v1.0.0-c2097c7c, or BoringCrypto.
	Name string `json:"name,omitempty"`
	// Active reports whether the program starts in FIPS mode.
	Active bool `json:"active,omitempty"`
}

// Of returns the module of a program. environment is that of a process, NAME=VALUE, whose GODEBUG overrides what was built in; it is
// empty for a program that does not run.
func Of(info *debug.BuildInfo, environment ...string) Module {
	var m Module
	mode := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "GOFIPS140":
			if s.Value != "off" && s.Value != "latest" { // latest is the toolchain's own code, which nobody has certified
				m.Name = s.Value
			}
		case "GOEXPERIMENT":
			if strings.Contains(","+s.Value+",", ",boringcrypto,") {
				return Module{Name: Boring, Active: true}
			}
		case "DefaultGODEBUG":
			mode = setting(s.Value, mode)
		}
	}
	for _, variable := range environment {
		if value, ok := strings.CutPrefix(variable, "GODEBUG="); ok {
			mode = setting(value, mode)
		}
	}
	m.Active = m.Name != "" && (mode == "on" || mode == "only")
	return m
}

// setting returns the last value of fips140 in a GODEBUG, such as on in "http2client=0,fips140=on".
func setting(text, otherwise string) string {
	for pair := range strings.SplitSeq(text, ",") {
		if value, ok := strings.CutPrefix(pair, "fips140="); ok {
			otherwise = value
		}
	}
	return otherwise
}

// String describes the module: "v1.0.0-c2097c7c, active".
func (m Module) String() string {
	switch {
	case m.Name == "":
		return "none"
	case m.Active:
		return m.Name + ", active"
	}
	return m.Name + ", not active"
}
