package main

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// A bundle of programs with the certified module, but for one.
func TestProgramWithoutFIPSModuleIsFound(t *testing.T) {
	good := fixture.GoProgram("go1.26.1", "path example.org/good", "build GOFIPS140=v1.0.0-c2097c7c", "build DefaultGODEBUG=fips140=on")
	plain := fixture.GoProgram("go1.26.1", "path example.org/plain")
	images := map[string][][]byte{
		"example.org/app:1":   {fixture.Layer(t, [2]string{"usr/bin/good", string(good)})},
		"example.org/pause:1": {fixture.Layer(t, [2]string{"pause", "\x7fELF and more"})},
	}
	run := func(name string) (int, string) {
		var out strings.Builder
		code := run(t.Context(), []string{"fips", "verify", name}, strings.NewReader(""), &out, &out)
		return code, out.String()
	}
	if code, out := run(fixture.ImagePackage(t, images, map[string][]byte{"assets/good": good}, bundle.WriteOptions{})); code != app.ExitDone {
		t.Errorf("all programs have the module: exit %d\n%s", code, out)
	}
	images["example.org/plain:1"] = [][]byte{fixture.Layer(t, [2]string{"usr/bin/plain", string(plain)})}
	code, out := run(fixture.ImagePackage(t, images, map[string][]byte{"assets/good": good}, bundle.WriteOptions{}))
	if code != app.ExitRefused || !strings.Contains(out, "usr/bin/plain  module none") || strings.Count(out, "\nfail ") != 1 || !strings.Contains(out, "images without a Go program, which are not judged: 1") {
		t.Errorf("one program lacks it: exit %d\n%s", code, out)
	}
}
