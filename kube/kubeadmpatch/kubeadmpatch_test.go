package kubeadmpatch

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// finished converts a file to kubeadm's format.
func finished(t *testing.T, text string) (documents []map[string]any, notes []string) {
	t.Helper()
	merged, notes, err := Mergeable([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	documents = decode(t, string(merged))
	for _, object := range documents {
		if err := Finish(object); err != nil {
			t.Fatal(err)
		}
	}
	return documents, notes
}

func decode(t *testing.T, text string) (documents []map[string]any) {
	t.Helper()
	for one := range strings.SplitSeq(text, "---\n") {
		var document map[string]any
		if err := yaml.Unmarshal([]byte(one), &document); err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document)
	}
	return documents
}

func TestPatchesAreConvertedToCurrentVersion(t *testing.T) {
	for name, row := range map[string]struct{ given, want, note string }{
		"a network": {
			"apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\nnetworking: {podSubnet: $POD_CIDR}",
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nnetworking: {podSubnet: $POD_CIDR}", "",
		},
		"arguments of programs": {
			"apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\napiServer: {extraArgs: {z: 'true', a: b, m: 5}}\netcd: {local: {extraArgs: {q: ''}}}",
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\napiServer: {extraArgs: [{name: a, value: b}, {name: m, value: '5'}, {name: z, value: 'true'}]}\netcd: {local: {extraArgs: [{name: q, value: ''}]}}", "",
		},
		"flags that are gone": {
			"apiVersion: kubeadm.k8s.io/v1beta1\nkind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: {container-runtime: remote, network-plugin: cni}, criSocket: s}",
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {criSocket: s}", "nodeRegistration.kubeletExtraArgs.container-runtime of InitConfiguration in kubeadm.k8s.io/v1beta1 is left out",
		},
		"a field that moved to another document": {
			"apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\nuseHyperKubeImage: true\ndns: {type: CoreDNS, imageTag: x}\napiServer: {timeoutForControlPlane: 8m0s}",
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ndns: {imageTag: x}\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nmetadata: {name: kubeadm-init-configuration}\ntimeouts: {controlPlaneComponentHealthCheck: 8m0s}",
			"useHyperKubeImage",
		},
		"a field that moved": {
			"apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\ndiscovery: {timeout: 2m, bootstrapToken: {token: t}}",
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery: {bootstrapToken: {token: t}}\ntimeouts: {discovery: 2m}", "",
		},
		"one that is current, with an argument twice": {
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration: {kubeletExtraArgs: [{name: b, value: '2'}, {name: b, value: '1'}, {name: container-runtime, value: x}]}",
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration: {kubeletExtraArgs: [{name: b, value: '2'}, {name: b, value: '1'}, {name: container-runtime, value: x}]}", "",
		},
		"another API": {
			"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 42",
			"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 42", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, notes := finished(t, row.given)
			if want := decode(t, row.want); !reflect.DeepEqual(got, want) {
				said, _ := yaml.Marshal(got)
				t.Errorf("got\n%swant\n%s", said, row.want)
			}
			if said := strings.Join(notes, "\n"); !strings.Contains(said, row.note) || row.note == "" && said != "" {
				t.Errorf("noted %q, want %q", said, row.note)
			}
		})
	}
}

// A patch with a volume keeps those of the configuration, as with arguments.
func TestVolumesAreMergedByTheirNames(t *testing.T) {
	const base = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\napiServer: {extraVolumes: [{name: policy, hostPath: /p}, {name: log, hostPath: /l}]}"
	merged, _, err := Mergeable([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	object := decode(t, string(merged))[0]
	volumes := object["apiServer"].(map[string]any)["extraVolumes"].(map[string]any)
	volumes["cloud"] = map[string]any{"name": "cloud", "hostPath": "/c"} // as a merge does
	if err := Finish(object); err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{"name": "cloud", "hostPath": "/c"}, map[string]any{"name": "log", "hostPath": "/l"}, map[string]any{"name": "policy", "hostPath": "/p"}}
	if got := object["apiServer"].(map[string]any)["extraVolumes"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestInconvertiblePatchesAreRefused(t *testing.T) {
	for want, given := range map[string]string{
		"ClusterStatus":              "apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterStatus",
		"apiServer.extraArgs":        "apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\napiServer: {extraArgs: text}",
		"nodeRegistration.kubeletEx": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: [a]}",
		"apiServer.extraVolumes":     "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\napiServer: {extraVolumes: [{name: a}, {name: a}]}",
		"document 2":                 "a: b\n---\n{",
	} {
		if _, _, err := Mergeable([]byte(given)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := Finish(map[string]any{"apiVersion": APIVersion, "kind": "InitConfiguration",
		"nodeRegistration": map[string]any{"kubeletExtraArgs": map[string]any{"a": map[string]any{}}}}); err == nil || !strings.Contains(err.Error(), "kubeletExtraArgs: a:") {
		t.Error(err)
	}
}

func FuzzMergeable(f *testing.F) {
	f.Add("apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\napiServer: {extraArgs: {a: b}, timeoutForControlPlane: 1m}\n---\na: b")
	f.Add("apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\nnodeRegistration: {kubeletExtraArgs: {container-runtime: remote}}\ndiscovery: {timeout: 1}\ntimeouts: 5")
	f.Add("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: [{name: a}, {name: a}]}")
	f.Add("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nscheduler: {extraVolumes: [{name: b, hostPath: /b}, {name: a}]}")
	f.Add("text\r\r\ntext\r")
	f.Fuzz(func(t *testing.T, text string) {
		merged, _, err := Mergeable([]byte(text))
		if err != nil {
			return
		}
		if again, notes, err := Mergeable(merged); err != nil || len(notes) > 0 || string(again) != string(merged) {
			t.Errorf("a second time: %v, %v\n%s\n%s", err, notes, again, merged)
		}
		for one := range strings.SplitSeq(string(merged), "---\n") {
			var document map[string]any
			if yaml.Unmarshal([]byte(one), &document) == nil {
				_ = Finish(document)
			}
		}
	})
}
