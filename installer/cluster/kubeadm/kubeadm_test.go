package kubeadm_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// parse reads a manifest. Those of testdata/1.36 are kubeadm 1.36.3's, with repeated flags and flags without a value; those of
// testdata/1.28 have the format of kubeadm 1.28.
func parse(t *testing.T, name string) kubeadm.Pod {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := kubeadm.ParsePod(text)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestManifestsOfKubeadmAreRead(t *testing.T) {
	for _, row := range []struct{ manifest, image, flag, want string }{
		{"1.28/etcd.yaml", "registry.k8s.io/etcd:3.5.9-0", "listen-client-urls", "https://127.0.0.1:2379,https://10.10.0.1:2379"},
		{"1.36/etcd.yaml", "registry.k8s.io/etcd:3.6.8-0", "initial-cluster", "host-1=https://10.10.0.1:2380"},
		{"1.28/kube-controller-manager.yaml", "registry.k8s.io/kube-controller-manager:v1.28.5", "cluster-cidr", "10.32.0.0/20"},
		{"1.36/kube-controller-manager.yaml", "registry.k8s.io/kube-controller-manager:v1.36.3", "cluster-cidr", "10.32.0.0/20"},
		{"1.36/kube-apiserver.yaml", "registry.k8s.io/kube-apiserver:v1.36.3", "service-account-issuer", "https://b.example"},
		{"1.36/kube-apiserver.yaml", "registry.k8s.io/kube-apiserver:v1.36.3", "tls-cipher-suites", ""},
	} {
		pod := parse(t, row.manifest)
		if got, ok := pod.Args().Get(row.flag); pod.Image() != row.image || !ok || got != row.want {
			t.Errorf("%s: %s has --%s=%q, %t", row.manifest, pod.Image(), row.flag, got, ok)
		}
		if got, ok := pod.Args().Get(row.flag + "s"); ok {
			t.Errorf("%s: a flag that is not there is %q", row.manifest, got)
		}
	}
}

func TestFlagsAreReadInEveryForm(t *testing.T) {
	for what, row := range map[string]struct {
		container string
		want      map[string]string
	}{
		"YAML's quotes":      {`command: [etcd, "--a=b c", '--d=e"f']`, map[string]string{"a": "b c", "d": `e"f`}},
		"two words":          {"command: [etcd, --a, b, --c, '-1', -d, e]", map[string]string{"a": "b", "c": "-1", "d": "e"}},
		"yes":                {"command: [etcd, --a, --b]", map[string]string{"a": "true", "b": "true"}},
		"the last counts":    {"command: [etcd, --a=1, --a=2]", map[string]string{"a": "2"}},
		"values with =":      {"command: [etcd, --a=b=c=]", map[string]string{"a": "b=c="}},
		"arguments":          {"command: [etcd, --a=1], args: [--b=2, --a=3]", map[string]string{"a": "3", "b": "2"}},
		"the end of flags":   {"command: [etcd, --a=1, --, --b=2]", map[string]string{"a": "1"}},
		"nothing":            {"name: etcd", map[string]string{}},
		"words of no string": {"command: [etcd, 1, --a=1, {b: c}]", map[string]string{"a": "1"}},
	} {
		pod, err := kubeadm.ParsePod([]byte("metadata: {name: etcd}\nspec: {containers: [{name: beside, command: [x, --z=1]}, {name: etcd, " + row.container + "}]}"))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := maps.Collect(pod.Args().All()); !maps.Equal(got, row.want) {
			t.Errorf("%s: got %v, want %v", what, got, row.want)
		}
	}
	for _, text := range []string{"", "kind: Pod", "spec: {containers: []}", "spec: {containers: [1]}", "spec: [x]"} {
		if pod, err := kubeadm.ParsePod([]byte(text)); err != nil || pod.Image() != "" || len(pod.Args()) > 0 || pod.Replace("a", "b") {
			t.Errorf("%q: %v, %v", text, pod, err)
		}
	}
	for _, text := range []string{"{", "[]", "    - --a=b\n"} {
		if pod, err := kubeadm.ParsePod([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, pod)
		}
	}
}

func TestReplacedFlagKeepsRestOfItsManifest(t *testing.T) {
	const flag, file = "cluster-signing-cert-file", "/etc/kubernetes/pki/rotation-signer.crt"
	for _, name := range []string{"1.28/kube-controller-manager.yaml", "1.36/kube-controller-manager.yaml"} {
		pod := parse(t, name)
		if !pod.Replace(flag, file) {
			t.Fatalf("%s lacks the flag", name)
		}
		was, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		is, err := yaml.Marshal(pod)
		want := strings.Replace(string(was), "--"+flag+"=/etc/kubernetes/pki/ca.crt", "--"+flag+"="+file, 1)
		if err != nil || string(is) != want {
			t.Errorf("%s: %v\n%s", name, err, is)
		}
		if pod.Replace("no-such-flag", "x") {
			t.Errorf("%s has a flag that it lacks", name)
		}
	}
}

func TestFlagHasOneValue(t *testing.T) {
	for _, row := range [][2]string{
		{"etcd --a=1", "etcd --a=1 --x=new"},
		{"etcd --x=1 --a=1", "etcd --x=new --a=1"},
		{"etcd --x 1 --a --x=2 -x 3", "etcd --x=new --a --x=new --x=new"},
		{"etcd --a -- b", "etcd --a --x=new -- b"},
		{"", "--x=new"},
	} {
		was := kubeadm.Args(strings.Fields(row[0]))
		if got := strings.Join(was.With("x", "new"), " "); got != row[1] || strings.Join(was, " ") != row[0] {
			t.Errorf("%q: got %q, want %q", row[0], got, row[1])
		}
	}
}

func TestFlagsOfKubeletsAreRead(t *testing.T) {
	for text, want := range map[string]string{
		// kubeadm 1.28, and 1.36
		"KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock --pod-infra-container-image=registry.k8s.io/pause:3.9\"\n": "--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock|--pod-infra-container-image=registry.k8s.io/pause:3.9",
		"KUBELET_KUBEADM_ARGS=\"--hostname-override=host-1 --node-ip=10.10.0.1,fd00::1\"\n":                                                                        "--hostname-override=host-1|--node-ip=10.10.0.1,fd00::1",
		// administrators
		"KUBELET_EXTRA_ARGS='--node-labels a=b --v 2'":                          "--node-labels|a=b|--v|2",
		"# KUBELET_EXTRA_ARGS=--old\n; A=--older\n\nKUBELET_EXTRA_ARGS=-v=2 \n": "-v=2",
		"KUBELET_EXTRA_ARGS=--a=1 \\\n  --b=2\n":                                "--a=1|--b=2",
		`KUBELET_EXTRA_ARGS="--a='b c' --d"`:                                    "--a=b c|--d",
		`KUBELET_EXTRA_ARGS=--a="b c" --d=''`:                                   "--a=b c|--d=",
		"HTTP_PROXY=http://proxy:3128\nKUBELET_EXTRA_ARGS=\nno assignment\n":    "",
	} {
		if got := strings.Join(kubeadm.KubeletArgs([]byte(text)), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzFlags(f *testing.F) {
	f.Add("etcd\n--a=b\n--c\nd\n-e\n--\n--x=1", "1")
	f.Add("--x\n-1\n--x=\n-x=2\n---x\n-", "--y")
	f.Fuzz(func(t *testing.T, text, value string) {
		was := kubeadm.Args(strings.Split(text, "\n"))
		before := slices.Clone(was)
		given := maps.Collect(was.All())
		is := was.With("x", value)
		if got, ok := is.Get("x"); !ok || got != value {
			t.Fatalf("%q: --x is %q, %t", is, got, ok)
		}
		given["x"] = value
		if got := maps.Collect(is.All()); !maps.Equal(got, given) {
			t.Fatalf("%q became %q: %v instead of %v", was, is, got, given)
		}
		if !slices.Equal(was, before) {
			t.Fatalf("the words that were given changed to %q", was)
		}
		if only := is.Only(func(string) bool { return true }); !maps.Equal(maps.Collect(only.All()), given) {
			t.Fatalf("%q: the flags alone are %q", is, only)
		}
	})
}

func FuzzKubeletArgs(f *testing.F) {
	f.Add("KUBELET_EXTRA_ARGS=\"--a='b c' -v 2\" \\\n#x\nB=c")
	f.Fuzz(func(t *testing.T, text string) {
		args := kubeadm.KubeletArgs([]byte(text))
		if again := args.Only(func(string) bool { return true }); !slices.Equal(again, args) {
			t.Fatalf("%q has words of no flag", args)
		}
	})
}

func FuzzParsePod(f *testing.F) {
	f.Add("metadata: {name: a}\nspec: {containers: [{name: a, image: b, command: [c, --x=1], args: [--x]}]}")
	f.Fuzz(func(t *testing.T, text string) {
		pod, err := kubeadm.ParsePod([]byte(text))
		if err != nil {
			return
		}
		given := maps.Collect(pod.Args().All())
		if _, had := given["x"]; had {
			given["x"] = "new"
		}
		pod.Replace("x", "new")
		if got := maps.Collect(pod.Args().All()); !maps.Equal(got, given) {
			t.Fatalf("%q: the flags are %v instead of %v", text, got, given)
		}
		_ = pod.Image()
	})
}
