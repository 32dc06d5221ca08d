package cluster

import (
	"fmt"
	"path/filepath"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
)

// compliance is the variable with which the Installer requests all settings of the CIS benchmark (kubernetes.cisCompliance).
// What costs nothing is in the configuration of the add-on, with or without it.
const compliance = "KUBERNETES_CIS_COMPLIANCE"

// EncryptionFile has the keys with which the API server encrypts Secrets in etcd. Its folder is mounted into the API server: a
// mounted file would keep its old content when it is replaced.
const EncryptionFile = "/etc/kubernetes/encryption/config.yaml"

// EncryptSecrets is the variable with which the Installer requests that (kubernetes.encryptSecrets).
const EncryptSecrets = "KUBERNETES_ENCRYPT_SECRETS"

// KeepPlain is the value of EncryptSecrets in an Installer that has the option with false, so that strict hardening leaves it out.
const KeepPlain = "0"

// KeepEncrypted is the variable with which a restored cluster keeps encrypting Secrets, regardless of the Installer: its Secrets are
// already encrypted, even where their keys could not be rotated.
const KeepEncrypted = "KUBERNETES_KEEP_ENCRYPTED"

// encryptionVersion is the oldest Kubernetes whose API server reports which keys it uses.
const encryptionVersion = "1.34.0"

// Encrypts reports whether a new cluster encrypts Secrets.
func Encrypts(variables map[string]string) bool {
	switch {
	case variables[EncryptSecrets] == "1" || variables[KeepEncrypted] == "1":
		return true
	case variables[EncryptSecrets] == KeepPlain && variables[strictness] == strict:
		return false
	}
	return complies(variables) && !TooOldToEncrypt(variables["KUBERNETES_VERSION"])
}

// TooOldToEncrypt reports whether keys could not be rotated with a version of Kubernetes.
func TooOldToEncrypt(version string) bool {
	return catalog.CompareVersions(version, encryptionVersion) < 0
}

// checkEncryption refuses a Kubernetes whose keys could not be rotated.
func checkEncryption(variables map[string]string) error {
	if !TooOldToEncrypt(variables["KUBERNETES_VERSION"]) {
		return nil
	}
	option, fix := "", "use a newer one"
	switch {
	case variables[EncryptSecrets] == "1":
		option = "encryptSecrets"
	case variables[strictness] == strict && variables[EncryptSecrets] != KeepPlain:
		option, fix = "hardening", fix+", or write encryptSecrets: false beside it"
	default:
		return nil
	}
	return fmt.Errorf("the Installer's kubernetes.%s needs Kubernetes %s or newer, but it has %s; %s", option, encryptionVersion, variables["KUBERNETES_VERSION"], fix)
}

// Encryption is the file with the keys, as API servers read it.
func Encryption() kubeadm.ServerFile {
	return kubeadm.ServerFile{Volume: "encryption", Path: EncryptionFile,
		Flags: [][2]string{{"encryption-provider-config", EncryptionFile}, {"encryption-provider-config-automatic-reload", "true"}}}
}

// AuthenticationFile tells API servers whose tokens they accept. It is part of a cluster whose Installer has kubernetes.oidc, or had it.
const AuthenticationFile = "/etc/kubernetes/authentication/config.yaml"

// Authenticates is the variable with which the Installer requests that file for a new cluster.
const Authenticates = "SEALIFT_OIDC"

// authenticationVersion is the oldest Kubernetes that reads the file in the version that Sealift writes.
const authenticationVersion = "1.34.0"

// Authentication is the file, as API servers read it.
func Authentication() kubeadm.ServerFile {
	return kubeadm.ServerFile{Volume: "authentication", Path: AuthenticationFile, Flags: [][2]string{{"authentication-config", AuthenticationFile}}}
}

// checkAuthentication refuses a Kubernetes that does not read the file.
func checkAuthentication(variables map[string]string) error {
	version := variables["KUBERNETES_VERSION"]
	if variables[Authenticates] == "1" && catalog.CompareVersions(version, authenticationVersion) < 0 {
		return fmt.Errorf("the Installer's kubernetes.oidc needs Kubernetes %s or newer, but it has %s", authenticationVersion, version)
	}
	return nil
}

// serverFiles are the files that the API servers of a new cluster read.
func serverFiles(variables map[string]string) (all []kubeadm.ServerFile) {
	if Encrypts(variables) {
		all = append(all, Encryption())
	}
	if variables[Authenticates] == "1" {
		all = append(all, Authentication())
	}
	return all
}

// secureFiles restricts files to root that kubeadm makes readable for everybody.
func secureFiles() error {
	for _, pattern := range []string{kubeadm.PKI + "/*.crt", kubeadm.PKI + "/etcd/*.crt", kubeadm.KubeletConfig} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := files.Chmod(name, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
