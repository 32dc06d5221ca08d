package spec_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/spec"
)

func TestReadsAndRequestsOfChecksAreListed(t *testing.T) {
	for collectors, want := range map[string]int{
		"[{cpu: {}}, {memory: {}}, {diskUsage: {path: /var}}, {tcpPortStatus: {port: 6443}}]": 0,
		"[{copy: {path: /etc/shadow}}, {cpu: {}}]":                                            1,
		`[{http: {get: {url: "http://x"}}}, {tcpConnect: {address: "x:1"}, dns: {}}]`:         3,
		"text": 0, // which Executions names
	} {
		i, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  base: {version: 1.0}\n  kurl: {hostPreflights: {spec: {collectors: "+collectors+"}}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := i.Reaches(); len(got) != want {
			t.Errorf("%s: %v, want %d", collectors, got, want)
		}
	}
}
