package kubeadm

// The folders and files that kubeadm makes on a node.
const (
	Folder    = "/etc/kubernetes"
	Manifests = Folder + "/manifests" // of static pods
	PKI       = Folder + "/pki"       // the CA and the certificates of a control plane

	// AdminKubeconfig has the administrator's credentials.
	AdminKubeconfig = Folder + "/admin.conf"
	// KubeletKubeconfig has those of the kubelet.
	KubeletKubeconfig = Folder + "/kubelet.conf"
	// BootstrapKubeconfig has the token with which the kubelet asks for a certificate if it has no valid one. Its unit names the file.
	BootstrapKubeconfig = Folder + "/bootstrap-kubelet.conf"

	// APIServerManifest exists from the moment when kubeadm has made the node a control plane, and on no other.
	APIServerManifest = Manifests + "/kube-apiserver.yaml"
	// ControllerManagerManifest names the networks of the cluster.
	ControllerManagerManifest = Manifests + "/kube-controller-manager.yaml"
	// EtcdManifest exists on a control plane with its own etcd.
	EtcdManifest = Manifests + "/etcd.yaml"

	// KubeletConfig is the configuration of the kubelet.
	KubeletConfig = "/var/lib/kubelet/config.yaml"
	// KubeletFlags has the flags that kubeadm gives the kubelet of a node, its address among them.
	KubeletFlags = "/var/lib/kubelet/kubeadm-flags.env"
	// KubeletCertificate is the kubelet's certificate and key.
	KubeletCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	// KubeletServing is the certificate and key with which the kubelet serves, if the cluster's CA signed it (serverTLSBootstrap).
	KubeletServing = "/var/lib/kubelet/pki/kubelet-server-current.pem"
)
