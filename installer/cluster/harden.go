package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// strictness is the variable with which the Installer requests all settings that a cluster can have (kubernetes.hardening). It includes
// compliance. strict is its only value.
const (
	strictness = "KUBERNETES_HARDENING"
	strict     = "strict"
)

// complies reports whether the Installer requests the settings of the CIS benchmark.
func complies(variables map[string]string) bool {
	return variables[compliance] == "1" || variables[strictness] == strict
}

// The programs of a cluster that have settings.
const (
	ofServer      = "kube-apiserver"
	ofControllers = "kube-controller-manager"
	ofScheduler   = "kube-scheduler"
	ofEtcd        = "etcd"
	ofKubelet     = "kubelet"
)

// Setting is a value of a program in a hardened cluster: an argument, or a field of the kubelet's configuration.
type Setting struct {
	Program string `json:"program"`
	Name    string `json:"name"`
	Value   any    `json:"value"`

	strict bool // by kubernetes.hardening alone, and not by cisCompliance
}

// String is the setting as people write it: --profiling=false or podPidsLimit: 4096, after the program.
func (s Setting) String() string {
	if s.Program == ofKubelet {
		return fmt.Sprintf("%s %s: %v", s.Program, s.Name, s.Value)
	}
	return fmt.Sprintf("%s --%s=%v", s.Program, s.Name, s.Value)
}

// OfNode reports whether each node has the setting by its own, and not by the cluster's configuration.
func (s Setting) OfNode() bool { return s.Program == ofKubelet }

// AdmissionFile configures admission plugins of API servers: the level of Pod Security of namespaces without one, and limits of events.
// Every control plane has it from the add-on, but only servers of strict clusters read it: a control plane may join when the Installer no
// longer says strict.
const AdmissionFile = "/etc/kubernetes/admission.yaml"

// strongSuites are the TLS 1.2 suites with forward secrecy and authenticated encryption. The add-on has the same for the API server and kubelets.
const strongSuites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256," +
	"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"

// settings is the one table of what cisCompliance and hardening set, beside the encryption of Secrets. What costs nothing is in the
// configuration of the add-on, with or without them. Of two rows for one setting the later one counts.
func settings() []Setting {
	return []Setting{
		{ofServer, "enable-admission-plugins", "NodeRestriction,DenyServiceExternalIPs", false},
		{ofServer, "kubelet-certificate-authority", clusterCA, false},
		{ofServer, "service-account-extend-token-expiration", "false", false},
		{ofKubelet, "podPidsLimit", 4096, false}, // processes and threads of a pod
		{ofKubelet, "seccompDefault", true, false},
		{ofKubelet, "serverTLSBootstrap", true, false},

		{ofServer, "enable-admission-plugins", "NodeRestriction,DenyServiceExternalIPs,EventRateLimit", true},
		{ofServer, "admission-control-config-file", AdmissionFile, true},
		{ofControllers, "tls-cipher-suites", strongSuites, true},
		{ofScheduler, "tls-cipher-suites", strongSuites, true},
		{ofEtcd, "cipher-suites", strongSuites, true},
		{ofKubelet, "enableDebugFlagsHandler", false, true},
		{ofKubelet, "enableProfilingHandler", false, true},
		{ofKubelet, "protectKernelDefaults", true, true}, // the add-on makes the kernel's settings those of the kubelet
		{ofKubelet, "streamingConnectionIdleTimeout", "5m0s", true},
	}
}

// Hardening returns what the Installer's cisCompliance or hardening sets in a new cluster, sorted by program and name; nothing without them.
// The encryption of Secrets, which other options request, too, is not among them.
func Hardening(variables map[string]string) (on []Setting) {
	if !complies(variables) {
		return nil
	}
	chosen := map[[2]string]Setting{}
	for _, s := range settings() {
		if !s.strict || variables[strictness] == strict {
			chosen[[2]string{s.Program, s.Name}] = s
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(chosen), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		on = append(on, chosen[key])
	}
	return on
}

// EncryptionSetting is the argument by which Secrets are encrypted.
func EncryptionSetting() Setting {
	flag := Encryption().Flags[0]
	return Setting{Program: ofServer, Name: flag[0], Value: flag[1]}
}

// hardenedArguments returns those of a program, as kubeadm has them.
func hardenedArguments(variables map[string]string, program string) (arguments []map[string]string) {
	for _, s := range Hardening(variables) {
		if s.Program == program {
			arguments = append(arguments, map[string]string{"name": s.Name, "value": fmt.Sprint(s.Value)})
		}
	}
	return arguments
}

// hardenedKubelet returns the fields of its configuration.
func hardenedKubelet(variables map[string]string) map[string]any {
	config := map[string]any{}
	for _, s := range Hardening(variables) {
		if s.Program == ofKubelet {
			config[s.Name] = s.Value
		}
	}
	return config
}

// admissionVolume mounts the file into the API server.
func admissionVolume() map[string]any {
	return map[string]any{"name": "admission", "hostPath": AdmissionFile, "mountPath": AdmissionFile, "pathType": "File", "readOnly": true}
}

// checkAdmission refuses a package of Kubernetes that an earlier Sealift built: its API server would not start.
func (k Kubeadm) checkAdmission() error {
	if k.Variables[strictness] != strict {
		return nil
	}
	name := filepath.Join(filepath.Dir(k.Base), filepath.Base(AdmissionFile))
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the Installer's kubernetes.hardening needs a package of kubernetes with %s: build the package and the bundle again", filepath.Base(name))
	} else if err != nil {
		return err
	}
	return nil
}
