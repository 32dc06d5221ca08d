package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/balancer"
	"github.com/sealift/sealift/installer/host/proc"
	"github.com/sealift/sealift/internal/atomicfile"
)

// While kubeadm replaces the API server of a cluster's only control plane, a second one of the version before answers on the
// same port: a static pod that the kubelet makes from this manifest.
const (
	bridgeName     = "kube-apiserver-bridge"
	bridgeManifest = "/etc/kubernetes/manifests/" + bridgeName + ".yaml"
	portSharing    = "--permit-port-sharing=true"
	auditLog       = "--audit-log-path="
)

// How long the second server may take to answer, how long both may take to do so in turn, and how often they are asked. So many
// answers in a row, each on a connection of its own, come from both.
const (
	bridgeBound  = 3 * time.Minute
	bridgePause  = 200 * time.Millisecond
	bridgeInARow = 12
)

// bridge has a second API server run while do replaces the first one. Without it, the first server does not share its port, and
// do runs alone.
func (k Kubeadm) bridge(ctx context.Context, do func() error) error {
	manifest, err := os.ReadFile(APIServerManifest)
	if err != nil {
		return err
	}
	second, port, err := bridgeOf(manifest)
	if err != nil {
		return fmt.Errorf("%s: %w", APIServerManifest, err)
	}
	if second == nil {
		return do()
	}
	if err := atomicfile.WriteMode(bridgeManifest, 0o600, second); err != nil {
		return err
	}
	if err = k.waitServers(ctx, port, 2); err == nil {
		fmt.Fprintln(k.Output, "a second API server of the version before answers meanwhile")
		err = do()
	}
	if err == nil {
		err = k.waitServers(ctx, port, 2)
	}
	return errors.Join(err, k.unbridge(ctx, port))
}

// RemoveBridge has the kubelet end a second API server that an interrupted upgrade left.
func RemoveBridge() error {
	err := os.Remove(bridgeManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (k Kubeadm) unbridge(ctx context.Context, port int) error {
	if err := RemoveBridge(); err != nil {
		return err
	}
	return k.waitServers(context.WithoutCancel(ctx), port, 1)
}

// bridgeOf makes the second server's manifest out of the first one's. It is nil if the first one does not share its port.
func bridgeOf(manifest []byte) (second []byte, port int, err error) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		return nil, 0, err
	}
	if len(pod.Spec.Containers) != 1 {
		return nil, 0, fmt.Errorf("the pod has %d containers instead of one", len(pod.Spec.Containers))
	}
	server := &pod.Spec.Containers[0]
	port = 6443
	for _, flag := range server.Command {
		if text, ok := strings.CutPrefix(flag, "--secure-port="); ok {
			if port, err = strconv.Atoi(text); err != nil {
				return nil, 0, err
			}
		}
	}
	if !slices.Contains(server.Command, portSharing) {
		return nil, port, nil
	}
	for n, flag := range server.Command { // two servers cannot rotate one file
		if path, ok := strings.CutPrefix(flag, auditLog); ok && path != "-" {
			server.Command[n] = auditLog + strings.TrimSuffix(path, ".log") + "-bridge.log"
		}
	}
	pod.Name, pod.Labels = bridgeName, map[string]string{"tier": "control-plane", "component": bridgeName}
	server.Name = bridgeName
	// The kubelet admits no two pods with one port of the host, and counts their processors.
	server.Ports, server.Resources = nil, corev1.ResourceRequirements{}
	// Either server would answer them.
	server.LivenessProbe, server.ReadinessProbe, server.StartupProbe = nil, nil, nil
	second, err = yaml.Marshal(pod)
	return second, port, err
}

// waitServers waits until so many API servers of this host answer.
func (k Kubeadm) waitServers(ctx context.Context, port, want int) error {
	ctx, cancel := context.WithTimeout(ctx, bridgeBound)
	defer cancel()
	prober, address := balancer.NewProber(), fmt.Sprintf("127.0.0.1:%d", port)
	for inARow := 0; inARow < bridgeInARow; {
		listening, err := listeners(port)
		if err != nil {
			return err
		}
		inARow++
		if listening != want || prober.Ready(ctx, address) != nil {
			inARow = 0
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("port %d has %d API servers instead of %d, or not all of them are ready after %s; see /var/log/pods: %w", port, listening, want, bridgeBound, context.Cause(ctx))
		case <-time.After(bridgePause):
		}
	}
	return nil
}

// listeners counts the sockets of this host that listen on a TCP port.
func listeners(port int) (n int, err error) {
	const listening = "0A" // the state, as the kernel writes it
	suffix := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"tcp", "tcp6"} {
		found, err := proc.Fields(filepath.Join("/proc/net", table), func(fields []string) string {
			if fields[3] == listening && strings.HasSuffix(fields[1], suffix) {
				return fields[1]
			}
			return ""
		})
		if err != nil {
			return 0, err
		}
		n += len(found)
	}
	return n, nil
}
