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

func TestServersOfClusterAreListed(t *testing.T) {
	for options, want := range map[string]string{
		"  prometheus: {version: 1.0, receivers: ['secret:ops', 'https://x.example/a']}\n":  "prometheus.receivers",
		"  prometheus: {version: 1.0, receivers: ['mailto:ops@x.example']}\n":               "prometheus.receivers",
		"  prometheus: {version: 1.0, smtpServer: 'x.example:25'}\n":                        "prometheus.smtpServer",
		"  prometheus: {version: 1.0, receivers: ['secret:ops'], receiversFrom: a}\n":       "",
		"  kurl: {caCertificates: x}\n":                                                     "kurl.caCertificates",
		"  kurl: {nameserver: 192.0.2.1}\n":                                                 "kurl.nameserver",
		"  kurl: {proxyAddress: 'http://x:3128', additionalNoProxyAddresses: [10.0.0.1]}\n": "",
		"  snapshots: {key: age1x, store: 's3://b'}\n":                                      "snapshots.store",
		"  snapshots: {key: age1x, store: /mnt/b}\n":                                        "",
	} {
		i, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  base: {version: 1.0}\n"+options))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range i.Reaches() {
			got = append(got, e.Field)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %v, want %q", options, got, want)
		}
	}
}
