package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/onsi/ginkgo/v2"
)

// standInVersion is the release that the stand-in reports.
const standInVersion = "v1.36.3"

// The tests of the stand-in. A test does what its name says.
const (
	passes   = "[sig-node] Pods should be submitted and removed [NodeConformance] [Conformance]"
	fails    = "[sig-network] Services (with a.b*) should fail [Conformance]"
	skips    = "[sig-node] Nodes should be two [Serial] [Conformance]"
	crashes  = "[sig-apps] Jobs should crash [Conformance]"
	hangs    = "[sig-storage] Volumes should hang [Conformance]"
	noTest   = "[sig-node] Pods should do what conformance does not ask for [Feature:Other]"
	allTests = 5
)

// TestMain lets this program be e2e.test if it is called by that name: a suite of Ginkgo with the flags that Kubernetes' own has.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "e2e.test" {
		os.Exit(standIn())
	}
	os.Exit(m.Run())
}

// mark notes that a suite failed.
type mark struct{ failed bool }

func (m *mark) Fail() { m.failed = true }

func standIn() int {
	kubeconfig := flag.String("kubeconfig", "", "")
	version := flag.Bool("version", false, "")
	images := flag.Bool("list-images", false, "")
	broken := flag.Bool("broken", false, "fail before the first test")
	flag.String("provider", "", "")
	flag.Bool("dump-logs-on-failure", true, "")
	flag.Parse()
	switch {
	case *version:
		fmt.Println(standInVersion)
		return 0
	case *images:
		fmt.Println(os.Getenv("KUBE_TEST_REPO_LIST") + "example.com/b/pause:3\nexample.com/a:1\nexample.com/a:2\nexample.com/a:2")
		return 0
	}
	// ran notes that a test has begun.
	ran := func(name string) {
		f, err := os.OpenFile(*kubeconfig+".ran", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			ginkgo.Fail(err.Error())
		}
		fmt.Fprintln(f, name)
		_ = f.Close()
	}
	if *broken {
		ginkgo.BeforeSuite(func() { ginkgo.Fail("no node is ready") })
	}
	ginkgo.Describe("[sig-node]", func() {
		ginkgo.It("Pods should be submitted and removed [NodeConformance] [Conformance]", func() { ran(passes) })
		ginkgo.It("Nodes should be two [Serial] [Conformance]", func() {
			ran(skips)
			ginkgo.Skip("needs two nodes")
		})
		ginkgo.It("Pods should do what conformance does not ask for [Feature:Other]", func() { ran(noTest) })
	})
	ginkgo.It(fails, func() {
		ran(fails)
		ginkgo.Fail("connection refused\nby 192.0.2.1")
	})
	ginkgo.It(crashes, func() {
		ran(crashes)
		fmt.Println("the last words")
		os.Exit(7)
	})
	ginkgo.It(hangs, func(ctx ginkgo.SpecContext) {
		ran(hangs)
		<-ctx.Done()
		ran("cleaned up")
	})
	var m mark
	ginkgo.RunSpecs(&m, "Kubernetes e2e suite")
	if m.failed {
		return 1
	}
	return 0
}
