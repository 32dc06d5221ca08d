package upstream

import (
	_ "embed"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/sealift/sealift/internal/releases"
)

// What the versions in the table of releases are made from: Go modules, each at its own version.

func goModule(name, version string, m GoModule) Component {
	m.Version = version
	c := Component{Name: name, Version: version}
	m.Replace = replacements()[c.ID()]
	c.Recipe = m
	return c
}

// replacements lists the components that cannot be made from the versions that their authors require.
func replacements() map[string][]Replacement {
	return map[string][]Replacement{
		"flannel-v0.28.10": {{
			Module: "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/vpc", Version: "v1.0.1136",
			Why: "the Go proxy refuses the required v1.3.188; only the backend tencent-vpc calls it",
		}},
		"traefik-v3.7.13": {{
			Module: "github.com/abbot/go-http-auth", By: "github.com/containous/go-http-auth", Version: "v0.4.1-0.20200324110947-a37a7636d23e",
			Why: "the Go proxy refuses the fork of 2026 that is required; only the middlewares basicAuth and digestAuth call it",
		}},
	}
}

// programsOf lists the components of one version of an add-on, without its images.
func programsOf(r releases.Release) []Component {
	version := "v" + r.Version
	switch r.Name {
	case "kubernetes":
		return slices.Concat(kubernetesComponents(r), cniPlugins(r.With["cni-plugins"]))
	case "containerd":
		return append(containerd(version), runc(r.With["runc"]))
	case "flannel":
		return []Component{flannel(version), flannelPlugin()}
	case "local-path-provisioner":
		return []Component{goModule(r.Name, version, GoModule{
			Path:     "github.com/rancher/local-path-provisioner",
			With:     commonLibraries(),
			Commands: []GoCommand{{Name: "local-path-provisioner"}},
			Set:      []string{"main.VERSION=" + version},
		})}
	case "metrics-server":
		return []Component{goModule(r.Name, version, GoModule{
			Path:     "sigs.k8s.io/metrics-server",
			With:     commonLibraries(),
			Commands: commandsIn("cmd", "metrics-server"),
			Set:      []string{"k8s.io/client-go/pkg/version.gitVersion=" + version},
		})}
	case "cert-manager":
		return certManager(version)
	case "descheduler":
		return descheduler(r)
	case "gatekeeper":
		return gatekeeper(version)
	case "kube-network-policies":
		return networkPolicies(version)
	case "metallb":
		return metallb(version)
	case "node-local-dns":
		return nodeLocalDNS()
	case "object-store":
		return objectStore(version, r.With["chart"])
	case "prometheus":
		return monitoring(r)
	case "registry":
		return []Component{registry(version)}
	case "traefik":
		return traefik(r)
	case "velero":
		return velero(r)
	case "volume-snapshots":
		return volumeSnapshots(version)
	}
	return nil // tools, and the operator, which this repository makes
}

// etcdVersion is the version of etcd in an image's tag, such as 3.6.8 of 3.6.8-0.
func etcdVersion(r releases.Release) string {
	version, _, _ := strings.Cut(r.With["etcd"], "-")
	return version
}

func kubernetesComponents(r releases.Release) []Component {
	version, pause := "v"+r.Version, r.With["pause"]
	return []Component{
		kubernetes(version),
		etcdModule(r, "server", "etcd"),
		etcdModule(r, "etcdctl", "etcdctl"),
		etcdModule(r, "etcdutl", "etcdutl"),
		coreDNS(r.With["coredns"]),
		goModule("pause-source", version, GoModule{Path: "k8s.io/kubernetes", Files: []string{"build/pause/linux/pause.c"}}),
		{Name: "pause", Version: pause, Recipe: CProgram{
			Name:   "pause",
			Source: FileOf{"pause-source-" + version, "pause.c"},
			Define: []string{"VERSION=v" + pause},
		}},
	}
}

// etcdModule makes one program of a release's etcd, whose modules have one version.
func etcdModule(r releases.Release, folder, program string) Component {
	m := GoModule{Path: "go.etcd.io/etcd/" + folder + "/v3", Commands: []GoCommand{{Name: program}}}
	if r.Version == releases.Current("kubernetes").Version {
		m.With = commonLibraries("go.etcd.io/etcd/")
	}
	return goModule(program, "v"+etcdVersion(r), m)
}

// coreDNS makes CoreDNS without the plugins that ask a cloud or tell one.
func coreDNS(version string) Component {
	const module = "github.com/coredns/coredns"
	m := GoModule{
		Path: module, Commands: []GoCommand{{Name: "coredns"}},
		Patches: []Patch{withoutImports(module, version, "core/plugin/zplugin.go", "plugin/azure", "plugin/clouddns", "plugin/route53", "plugin/trace")},
	}
	if semver.Compare(version, "v1.13") >= 0 { // older ones use a field that client-go no longer has
		m.With = commonLibraries()
	}
	return goModule("coredns", version, m)
}

// kubernetes makes the seven commands of one release.
func kubernetes(version string) Component {
	m := kubernetesModule(version)
	if version == "v"+releases.Current("kubernetes").Version {
		m.With = commonLibraries()
	}
	for _, name := range []string{"kubeadm", "kubelet", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		m.Commands = append(m.Commands, GoCommand{Package: "cmd/" + name, Name: name})
	}
	return goModule("kubernetes", version, m)
}

// kubernetesModule is the module of one release without its commands. Its staging modules are published as v0.<minor>.<patch>.
func kubernetesModule(version string) GoModule {
	minor, patch, _ := strings.Cut(strings.TrimPrefix(version, "v1."), ".")
	return GoModule{
		Path:     "k8s.io/kubernetes",
		Siblings: "v0." + minor + "." + patch,
		Set: []string{
			"k8s.io/component-base/version.gitVersion=" + version,
			"k8s.io/component-base/version.gitMajor=1",
			"k8s.io/component-base/version.gitMinor=" + minor,
			"k8s.io/component-base/version.gitTreeState=clean",
		},
	}
}

//go:embed libraries.txt
var libraries string

// commonLibraries are those of Sealift's programs, module@version, for what the demo installs and for what runs in pods, but those with one
// of these prefixes. Most of such a program is client-go and what that imports, and with its own version of it each takes one to three
// minutes more to compile.
func commonLibraries(but ...string) (list []string) {
	for line := range strings.Lines(libraries) {
		fields := strings.Fields(line)
		if len(fields) == 2 && !slices.ContainsFunc(but, func(prefix string) bool { return strings.HasPrefix(fields[0], prefix) }) {
			list = append(list, fields[0]+"@"+fields[1])
		}
	}
	return list
}

// containerd makes the programs and the archive that upstream releases.
func containerd(version string) []Component {
	const module = "github.com/containerd/containerd/v2"
	programs := []string{"containerd", "containerd-shim-runc-v2", "ctr"}
	return []Component{
		goModule("containerd", version, GoModule{Path: module, With: commonLibraries(), Commands: commandsIn("cmd", programs...), Set: []string{module + "/version.Version=" + version}}),
		{Name: "containerd-release", Version: version, Recipe: Tarball{
			File:  containerdArchive(version),
			Files: filesOf("containerd-"+version, "bin", programs...),
		}},
	}
}

func containerdArchive(version string) string {
	return "containerd-" + strings.TrimPrefix(version, "v") + "-linux-amd64.tar.gz"
}

func runc(version string) Component {
	return goModule("runc", version, GoModule{
		Path:     "github.com/opencontainers/runc",
		Commands: []GoCommand{{Name: "runc"}},
		CGO:      true,
		Tags:     []string{"seccomp", "netgo", "osusergo"},
		Packages: []string{"libseccomp-dev"},
	})
}

// pluginsModule has the CNI plugins, in old releases flannel's too.
const pluginsModule = "github.com/containernetworking/plugins"

// pluginsVersion is the variable in which a plugin has its own version.
const pluginsVersion = pluginsModule + "/pkg/utils/buildversion.BuildVersion="

// cniPlugins makes the programs and the archive that upstream releases.
func cniPlugins(version string) []Component {
	return []Component{
		goModule("cni-plugins", version, GoModule{
			Path: pluginsModule,
			Commands: slices.Concat(
				commandsIn("plugins/main", "bridge", "dummy", "host-device", "ipvlan", "loopback", "macvlan", "ptp", "tap", "vlan"),
				commandsIn("plugins/ipam", "dhcp", "host-local", "static"),
				commandsIn("plugins/meta", "bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf")),
			Set: []string{pluginsVersion + version},
		}),
		{Name: "cni-plugins-release", Version: version, Recipe: Tarball{
			File: pluginsArchive(version),
			Files: filesOf("cni-plugins-"+version, "", "bandwidth", "bridge", "dhcp", "dummy", "firewall", "host-device", "host-local", "ipvlan",
				"loopback", "macvlan", "portmap", "ptp", "sbr", "static", "tap", "tuning", "vlan", "vrf"),
		}},
	}
}

func pluginsArchive(version string) string { return "cni-plugins-linux-amd64-" + version + ".tgz" }

// flannel makes flanneld. Its UDP backend is C, so that upstream builds it for amd64 with CGO. The tags keep C out of what it shares with
// the others.
func flannel(version string, more ...GoCommand) Component {
	return goModule("flannel", version, GoModule{
		Path:     "github.com/flannel-io/flannel",
		With:     commonLibraries(),
		Commands: append([]GoCommand{{Name: "flanneld"}}, more...),
		CGO:      true, OnlyAMD64: true,
		Tags: []string{"netgo", "osusergo"},
		Set:  []string{"github.com/flannel-io/flannel/pkg/version.Version=" + version},
	})
}

// flannelPluginProgram is the CNI plugin of all flannel versions. Its own module is not on the Go proxy under its releases; this is the code
// that it was split off from.
const flannelPluginProgram = "flannel-cni-plugin-v0.9.1"

func flannelPlugin() Component {
	return goModule("flannel-cni-plugin", "v0.9.1", GoModule{
		Path:     pluginsModule,
		Commands: commandsIn("plugins/meta", "flannel"),
		Set:      []string{pluginsVersion + "v1.6.2-flannel1"},
	})
}

// objectStore makes an S3 server, and the files of its module that its image and its chart have.
func objectStore(version, chartVersion string) []Component {
	const module = "github.com/versity/versitygw"
	return []Component{
		goModule("versitygw", version, GoModule{
			Path:     module,
			Commands: commandsIn("cmd", "versitygw"),
			Set:      []string{"main.Version=" + version},
		}),
		goModule("versitygw-source", version, GoModule{Path: module, Files: []string{"docker-entrypoint.sh"}}),
		chart("versitygw", chartVersion, ModuleChart{Path: module, Version: version, Folder: "chart", URL: versitygwChart + ":" + chartVersion}),
	}
}

// registry makes Distribution without the drivers for Azure, Google and CloudFront.
func registry(version string) Component {
	const module, drivers = "github.com/distribution/distribution/v3", "registry/storage/driver/"
	return goModule("registry", version, GoModule{
		Path:     module,
		With:     commonLibraries(),
		Commands: commandsIn("cmd", "registry"),
		Set:      []string{module + "/version.version=" + version},
		Patches:  []Patch{withoutImports(module, version, "cmd/registry/main.go", drivers+"azure", drivers+"gcs", drivers+"middleware/cloudfront")},
	})
}

// toolComponents are the programs that tests use and no add-on carries.
func toolComponents() []Component {
	return []Component{
		registry("v" + releases.Current("distribution").Version),
		goModule("oci-conformance", "v"+releases.Current("oci-conformance").Version, GoModule{
			Path:     "github.com/opencontainers/distribution-spec/conformance",
			Commands: []GoCommand{{Name: "oci-conformance"}},
		}),
		objectStore("v"+releases.Current("versitygw").Version, "")[0],
	}
}

// peerComponents are the programs that benchmarks compare Sealift with. They are made only on request.
func peerComponents() []Component {
	return []Component{
		goModule("crane", "v"+releases.Current("crane").Version, GoModule{
			Path:     "github.com/google/go-containerregistry",
			Commands: commandsIn("cmd", "crane"),
		}),
		goModule("oras", "v"+releases.Current("oras").Version, GoModule{
			Path:     "oras.land/oras",
			Commands: commandsIn("cmd", "oras"),
		}),
	}
}

// commandsIn lists commands whose packages share a parent folder.
func commandsIn(parent string, names ...string) []GoCommand {
	var list []GoCommand
	for _, name := range names {
		list = append(list, GoCommand{Package: path.Join(parent, name), Name: name})
	}
	return list
}

// filesOf places files of one component in a folder of an archive or image, under their own names.
func filesOf(component, folder string, names ...string) []Placed {
	var list []Placed
	for _, name := range names {
		list = append(list, Placed{FileOf{component, name}, path.Join(folder, name)})
	}
	return list
}
