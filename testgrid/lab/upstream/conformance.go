package upstream

import "github.com/sealift/sealift/internal/releases"

// conformanceVersion is the release whose conformance tests the lab can make.
func conformanceVersion() string { return "v" + releases.Current("kubernetes").Version }

// ConformanceTests is the component with Kubernetes' own tests, the file e2e.test. They are made only on request:
// compiling them takes minutes.
func ConformanceTests() string { return "kubernetes-test-" + conformanceVersion() }

// toolsBase is the layer with the programs that tests call in addition to agnhost.
const toolsBase = "image-base-tools-12"

// ConformanceImages lists images that pods of conformance tests run, under the names that e2e.test has for them. The other images of
// these tests have programs that are not Go modules.
func ConformanceImages() []Image {
	agnhost := func(tag string) Image {
		return Image{
			Ref: "registry.k8s.io/e2e-test-images/agnhost:" + tag, Base: []string{toolsBase},
			Files: []Placed{
				{FileOf{ConformanceTests(), "agnhost"}, "agnhost"}, {FileOf{ConformanceTests(), "agnhost"}, "agnhost-2"},
				{FileOf{ConformanceTests(), "localhost.crt"}, "localhost.crt"}, {FileOf{ConformanceTests(), "localhost.key"}, "localhost.key"},
			},
			Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"},
		}
	}
	return []Image{
		agnhost("2.63.0"),
		agnhost("2.55"), // a test replaces it by the newer one
		// The shell of Debian's busybox drops variables that no shell can name, and tests set some.
		{
			Ref: "registry.k8s.io/e2e-test-images/busybox:1.37.0-1", Base: []string{busyboxBase},
			Files: []Placed{{FileOf{toolsBase, "bash-static"}, "bin/sh"}}, Cmd: []string{"sh"},
		},
		{Ref: "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0", Base: []string{toolsBase}, Cmd: []string{"sh"}},
	}
}

// conformanceComponents are made only for conformance tests.
func conformanceComponents() []Component {
	m := kubernetesModule(conformanceVersion())
	m.Commands = []GoCommand{
		{Package: "test/e2e", Name: "e2e.test", Tests: true},
		{Package: "test/images/agnhost", Name: "agnhost"},
	}
	m.Files = []string{"test/images/agnhost/porter/localhost.crt", "test/images/agnhost/porter/localhost.key"}
	list := []Component{
		goModule("kubernetes-test", conformanceVersion(), m),
		{Name: "image-base-tools", Version: "12", Recipe: SystemLayer{
			Suite: "bookworm", Packages: []string{"bind9-dnsutils", "curl", "iproute2", "netcat-openbsd", "bash-static"},
			Keep: []string{"usr/bin/bash-static"},
		}},
	}
	for _, image := range ConformanceImages() {
		list = append(list, image.ownLayer()...)
	}
	return list
}
