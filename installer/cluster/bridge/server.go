package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
)

const (
	apiServer     = "kube-apiserver"
	programFolder = "/usr/local/bin" // of its image
	auditLog      = "audit-log-path"
)

// server describes how an API server is run outside of a pod.
type server struct {
	image       string
	program     string // its path in the image
	flags       kubeadm.Args
	environment []string // NAME=value
	address     string   // host:port at which the node reaches it
	bind        string   // host:port at which it listens
	port        int
}

// secondOf reads the manifest of the first server. An error reports why a program of the host cannot do the same.
func secondOf(manifest []byte) (s server, err error) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		return s, fmt.Errorf("its manifest: %w", err)
	}
	at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == apiServer })
	if at < 0 {
		return s, errors.New("its pod has no container " + apiServer)
	}
	first := pod.Spec.Containers[at]
	words := kubeadm.Args(slices.Concat(first.Command, first.Args))
	if len(words) == 0 || path.Base(words[0]) != apiServer {
		return s, fmt.Errorf("its container runs %q instead of %s", words, apiServer)
	}
	s = server{image: first.Image, program: words[0], flags: words[1:]}
	if !path.IsAbs(s.program) {
		s.program = path.Join(programFolder, s.program)
	}
	if err := s.listen(); err != nil {
		return s, err
	}
	for _, v := range first.Env {
		if v.ValueFrom != nil {
			return s, fmt.Errorf("the variable %s of its container comes from the cluster", v.Name)
		}
		s.environment = append(s.environment, v.Name+"="+v.Value)
	}
	if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "$(") }) {
		return s, errors.New("its flags have variables, which the kubelet replaces")
	}
	return s, errors.Join(checkUser(pod.Spec, first), checkMounts(pod.Spec, first))
}

// listen reads the address, and gives the second server a separate audit log: two servers cannot rotate one file. The second
// server also leaves the addresses of the Service kubernetes alone: it would remove the first server's when it stops.
func (s *server) listen() (err error) {
	if s.flags.Value("permit-port-sharing") != "true" {
		return errors.New("the first one does not share its port, because an earlier sealift installed it")
	}
	s.port = 6443
	if port, ok := s.flags.Get("secure-port"); ok {
		if s.port, err = strconv.Atoi(port); err != nil {
			return fmt.Errorf("its flag --secure-port=%s: %w", port, err)
		}
	}
	if log := s.flags.Value(auditLog); log != "" && log != "-" {
		s.flags = s.flags.With(auditLog, strings.TrimSuffix(log, ".log")+"-second.log")
	}
	host, bind := s.flags.Value("advertise-address"), s.flags.Value("bind-address")
	s.flags = s.flags.With("endpoint-reconciler-type", "none")
	s.address = net.JoinHostPort(cmp.Or(host, "127.0.0.1"), strconv.Itoa(s.port))
	s.bind = net.JoinHostPort(cmp.Or(bind, "0.0.0.0"), strconv.Itoa(s.port))
	return nil
}

// checkUser refuses a server that does not run as root: its files may belong to a user that only its image knows.
func checkUser(pod corev1.PodSpec, c corev1.Container) error {
	var user *int64
	if pod.SecurityContext != nil {
		user = pod.SecurityContext.RunAsUser
	}
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		user = c.SecurityContext.RunAsUser
	}
	if user != nil && *user != 0 {
		return fmt.Errorf("the first one runs as user %d", *user)
	}
	return nil
}

// checkMounts refuses a server whose files are at other paths than the host's. kubeadm mounts all of them at their own.
func checkMounts(pod corev1.PodSpec, c corev1.Container) error {
	for _, m := range c.VolumeMounts {
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 || pod.Volumes[at].HostPath == nil {
			return fmt.Errorf("the first one has a volume at %s that is not a folder of the host", m.MountPath)
		}
		if host := path.Join(pod.Volumes[at].HostPath.Path, m.SubPath); host != path.Clean(m.MountPath) {
			return fmt.Errorf("the first one has %s of the host at %s; mount it at its own path", host, m.MountPath)
		}
	}
	return nil
}
