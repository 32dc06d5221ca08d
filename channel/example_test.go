package channel_test

import (
	"fmt"
	"net/url"

	"github.com/sealift/sealift/channel"
)

const addons = `
kind: Addons
metadata: {name: site}
spec:
  addons:
  - {name: dns, version: 1.0.0, manifest: dns-1.0.yaml, kubernetesVersion: <1.36.0, selector: {k8s-addon: dns}}
  - {name: dns, version: 1.1.0, manifest: dns-1.1.yaml, kubernetesVersion: ">=1.36.0", selector: {k8s-addon: dns}}
  - {name: proxy, version: 2.0.0, manifest: proxy.yaml, selector: {k8s-addon: proxy}}
`

// parse reads the channel of the examples.
func parse() channel.Index {
	index, err := channel.Parse([]byte(addons), &url.URL{Scheme: "https", Host: "example.com", Path: "/stable/addons.yaml"}, "stable")
	if err != nil {
		panic(err)
	}
	return index
}

func ExampleParse() {
	for _, e := range parse().Entries {
		fmt.Println(e.Name, *e.Version, e.Location)
	}
	// Output:
	// dns 1.0.0 https://example.com/stable/dns-1.0.yaml
	// dns 1.1.0 https://example.com/stable/dns-1.1.yaml
	// proxy 2.0.0 https://example.com/stable/proxy.yaml
}

// A plan compares the channel with the records of a cluster.
func ExampleNewPlan() {
	version := "2.0.0"
	installed := []channel.Installed{{Namespace: "kube-system", Name: "proxy", Record: channel.Record{Version: &version, Channel: "stable"}}}
	plan, err := channel.NewPlan(parse().Entries, "v1.36.3", installed)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range plan.Addons {
		fmt.Println(d.Entry.Name, d.Action, d.Reason)
	}
	for _, s := range plan.Skipped {
		fmt.Println("skipped", s.Entry.Name, s.Reason)
	}
	// Output:
	// dns install it is not installed
	// proxy keep version 2.0.0 is up to date
	// skipped dns Kubernetes 1.36.3 is not in "<1.36.0"
}

func ExampleRecord_ReplacedBy() {
	older, newer := "1.0.0", "1.1.0"
	one, two := channel.Record{Version: &older, Channel: "stable"}, channel.Record{Version: &newer, Channel: "stable"}
	fmt.Println(one.ReplacedBy(two))
	fmt.Println(two.ReplacedBy(one))
	// Output:
	// true version 1.1.0 is newer than 1.0.0
	// false version 1.1.0 stays, since 1.0.0 is older
}
