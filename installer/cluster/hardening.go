package cluster

import (
	"os"
	"path/filepath"
)

// compliance is the variable by which the Installer asks for all settings of the CIS benchmark that it can have
// (kubernetes.cisCompliance). What costs nothing is in the configuration of the add-on, with or without it.
const compliance = "KUBERNETES_CIS_COMPLIANCE"

// maxProcesses is how many processes and threads a pod may have with that.
const maxProcesses = 4096

// compliantKubelet are the settings of every kubelet.
func compliantKubelet() map[string]any {
	return map[string]any{"podPidsLimit": maxProcesses, "seccompDefault": true, "serverTLSBootstrap": true}
}

// compliantServer are the arguments of the API server.
func compliantServer() []map[string]string {
	return []map[string]string{
		{"name": "enable-admission-plugins", "value": "NodeRestriction,DenyServiceExternalIPs"},
		{"name": "kubelet-certificate-authority", "value": clusterCA},
	}
}

// secureFiles leaves to root alone what kubeadm lets everybody read, and only root needs.
func secureFiles() error {
	for _, pattern := range []string{PKI + "/*.crt", PKI + "/etcd/*.crt", KubeletConfig} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Chmod(name, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
