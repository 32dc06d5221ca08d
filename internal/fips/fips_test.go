package fips_test

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/fips"
)

func TestModuleIsReadFromBuildAndEnvironment(t *testing.T) {
	for _, row := range []struct{ settings, environment, want string }{
		{"", "", "none"},
		{"GOFIPS140=off", "", "none"},
		{"GOFIPS140=latest DefaultGODEBUG=fips140=on", "", "none"},
		{"DefaultGODEBUG=fips140=on", "", "none"},
		{"", "GODEBUG=fips140=on", "none"},
		{"GOFIPS140=v1.0.0-c2097c7c DefaultGODEBUG=fips140=on", "", "v1.0.0-c2097c7c, active"},
		{"GOFIPS140=v1.0.0-c2097c7c DefaultGODEBUG=http2client=0,fips140=only", "", "v1.0.0-c2097c7c, active"},
		{"GOFIPS140=v1.0.0-c2097c7c DefaultGODEBUG=fips140=off", "", "v1.0.0-c2097c7c, not active"},
		{"GOFIPS140=v1.0.0-c2097c7c", "", "v1.0.0-c2097c7c, not active"},
		{"GOFIPS140=v1.0.0-c2097c7c DefaultGODEBUG=fips140=on", "GODEBUG=x=1,fips140=off", "v1.0.0-c2097c7c, not active"},
		{"GOFIPS140=v1.0.0-c2097c7c DefaultGODEBUG=fips140=on", "GODEBUG=fips140=off,fips140=on", "v1.0.0-c2097c7c, active"},
		{"GOFIPS140=v1.0.0-c2097c7c DefaultGODEBUG=fips140=on", "NOT_GODEBUG=fips140=off", "v1.0.0-c2097c7c, active"},
		{"GOFIPS140=v1.0.0-c2097c7c", "GODEBUG=fips140=on", "v1.0.0-c2097c7c, active"},
		{"GOEXPERIMENT=boringcrypto,loopvar", "", "BoringCrypto, active"},
		{"GOEXPERIMENT=noboringcrypto", "", "none"},
	} {
		info := &debug.BuildInfo{}
		for pair := range strings.FieldsSeq(row.settings) {
			key, value, _ := strings.Cut(pair, "=")
			info.Settings = append(info.Settings, debug.BuildSetting{Key: key, Value: value})
		}
		if got := fips.Of(info, strings.Fields(row.environment)...).String(); got != row.want {
			t.Errorf("%s, environment %q: got %s, want %s", row.settings, row.environment, got, row.want)
		}
	}
}
