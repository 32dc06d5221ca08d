package cis

import (
	"context"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

// nodeFiles returns the checks of section 4.1.
func nodeFiles() []check {
	units := []string{"/etc/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service.d/*.conf", "/usr/lib/systemd/system/kubelet.service"}
	proxy := func(context.Context, *facts) (finding, error) {
		return notApplicable("kube-proxy runs in a pod, and has its kubeconfig from a ConfigMap"), nil
	}
	return []check{
		{id: "4.1.1", title: "The kubelet's unit is for root alone", find: mode(0o600, units...)},
		{id: "4.1.2", title: "The kubelet's unit belongs to root", find: owner(units...)},
		{id: "4.1.3", title: "kube-proxy's kubeconfig is for root alone", find: proxy},
		{id: "4.1.4", title: "kube-proxy's kubeconfig belongs to root", find: proxy},
		{id: "4.1.5", title: "The kubelet's kubeconfig is for root alone", find: mode(0o600, kubeadm.KubeletKubeconfig)},
		{id: "4.1.6", title: "The kubelet's kubeconfig belongs to root", find: owner(kubeadm.KubeletKubeconfig)},
		{id: "4.1.7", was: notIn18, title: "The CA of the kubelet's clients is changed by root alone", find: mode(0o644, keys+"/ca.crt")},
		{was: "4.1.7", title: "The CA of the kubelet's clients is for root alone", find: mode(0o600, keys+"/ca.crt")},
		{id: "4.1.8", title: "The CA of the kubelet's clients belongs to root", find: owner(keys + "/ca.crt")},
		{id: "4.1.9", title: "The kubelet's configuration is for root alone", find: mode(0o600, kubeadm.KubeletConfig)},
		{id: "4.1.10", title: "The kubelet's configuration belongs to root", find: owner(kubeadm.KubeletConfig)},
	}
}

// kubelet returns the checks of section 4.2.
func kubelet() []check {
	return []check{
		{id: "4.2.1", title: "The kubelet serves nobody without credentials", find: setting("anonymous-auth", "authentication.anonymous.enabled", is("false"))},
		{id: "4.2.2", title: "The kubelet asks who may do what", find: setting("authorization-mode", "authorization.mode", is("Webhook"))},
		{id: "4.2.3", title: "The kubelet verifies certificates of clients", find: setting("client-ca-file", "authentication.x509.clientCAFile", given())},
		{id: "4.2.4", title: "The kubelet has no port without credentials", find: setting("read-only-port", "readOnlyPort", isOrUnset("0"))},
		{id: "4.2.5", title: "Idle streams end", find: setting("streaming-connection-idle-timeout", "streamingConnectionIdleTimeout", neverIdle())},
		{id: "4.2.6", title: "The kubelet keeps its rules of iptables", find: setting("make-iptables-util-chains", "makeIPTablesUtilChains", isOrUnset("true"))},
		{id: "4.2.7", title: "The node is called as its host", find: func(_ context.Context, f *facts) (finding, error) {
			value, set := f.own["hostname-override"]
			return look("--hostname-override", value, set, test{"it must be the name of the host, or left out", func(value string, set bool) bool { return !set || value == f.Name }}), nil
		}},
		{id: "4.2.8", title: "Events are not lost", find: setting("event-qps", "eventRecordQPS", enough())},
		{id: "4.2.9", title: "The kubelet serves a certificate that can be verified", find: servingCertificate},
		{id: "4.2.10", title: "The kubelet's client certificate rotates", find: setting("rotate-certificates", "rotateCertificates", is("true"))},
		{id: "4.2.11", title: "The kubelet's serving certificate rotates", find: setting("rotate-server-certificates", "serverTLSBootstrap", is("true"))},
		{id: "4.2.12", title: "The kubelet accepts strong TLS suites only", find: setting("tls-cipher-suites", "tlsCipherSuites", strongOnly())},
		{id: "4.2.13", title: "Pods may have a limited number of processes", find: setting("pod-max-pids", "podPidsLimit", atLeast(1))},
		{id: "4.2.14", was: notIn18, title: "Pods get the runtime's seccomp profile (seccompDefault)", find: setting("seccomp-default", "seccompDefault", is("true"))},
	}
}

// kubeProxy returns the checks of section 4.3.
func kubeProxy() []check {
	return []check{{id: "4.3.1", was: notIn18, title: "kube-proxy serves metrics on the host alone", find: fromAPI(proxyMetrics)}}
}

// proxyMetrics reads the configuration that kubeadm gives to the kube-proxy of all nodes.
func proxyMetrics(ctx context.Context, f *facts) (finding, error) {
	const name, file = "kube-proxy", "config.conf"
	settings, err := f.API.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return notApplicable("this cluster has no kube-proxy of kubeadm"), nil
	}
	if err != nil {
		return finding{}, err
	}
	var config struct {
		Address string `json:"metricsBindAddress"`
	}
	if err := yaml.Unmarshal([]byte(settings.Data[file]), &config); err != nil {
		return finding{}, fmt.Errorf("%s of ConfigMap %s in kube-system: %w", file, name, err)
	}
	host, _, err := net.SplitHostPort(config.Address)
	ok := config.Address == "" || err == nil && net.ParseIP(host).IsLoopback()
	return judge(ok, "metricsBindAddress="+config.Address, "it must be an address of the host alone, such as 127.0.0.1:10249, or left out"), nil
}

// neverIdle requires streams to time out. kubeadm writes 0s for the default of four hours.
func neverIdle() test {
	return test{"it must not be 0", func(value string, set bool) bool { return value != "0" }}
}

// enough requires a number of events a second; 0 means no limit.
func enough() test {
	return test{"it must be 0 or more", func(value string, set bool) bool { return !set || value == "0" || atLeast(1).ok(value, set) }}
}

// servingCertificate accepts a pair of files, or a certificate that the cluster signs.
func servingCertificate(_ context.Context, f *facts) (finding, error) {
	if file, key := f.setting("tlsCertFile"), f.setting("tlsPrivateKeyFile"); file != "" && key != "" {
		return met("tlsCertFile=" + file), nil
	}
	return look("serverTLSBootstrap", f.setting("serverTLSBootstrap"), f.setting("serverTLSBootstrap") != "",
		test{"the kubelet must have the certificate from the cluster", func(value string, _ bool) bool { return value == "true" }}), nil
}
