package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// ServerFile is a file that API servers read again when it changes. Its folder is mounted into their pods: a mounted file would keep its
// old content when it is replaced.
type ServerFile struct {
	Volume string      // name of the volume
	Path   string      // of the file, on the host and in the pod
	Flags  [][2]string // names and values; the value of the first one is Path
}

// Folder is the mounted folder.
func (f ServerFile) Folder() string { return filepath.Dir(f.Path) }

// NamedBy returns the file that a server reads instead of, or as, this one. ok reports whether its flags name one.
func (f ServerFile) NamedBy(server Args) (path string, ok bool) { return server.Get(f.Flags[0][0]) }

// ReadServerPod reads the manifest of an API server, which has one container. path is where it is on this host.
func ReadServerPod(path string) (*corev1.Pod, error) {
	text, err := regularfile.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		return nil, fmt.Errorf("%s: %w", APIServerManifest, err)
	}
	if len(pod.Spec.Containers) != 1 {
		return nil, fmt.Errorf("%s: the pod has %d containers instead of one", APIServerManifest, len(pod.Spec.Containers))
	}
	return pod, nil
}

// Enable adds the flags and the folder to the manifest of an API server, and reports whether it lacked any. The file must exist: a kubelet
// restarts a server whose manifest changes.
func (f ServerFile) Enable(manifest string) (changed bool, err error) {
	pod, err := ReadServerPod(manifest)
	if err != nil {
		return false, err
	}
	server := &pod.Spec.Containers[0]
	for _, flag := range f.Flags {
		if _, ok := Args(server.Command).Get(flag[0]); !ok {
			server.Command, changed = Args(server.Command).With(flag[0], flag[1]), true
		}
	}
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == f.Volume }) {
		kind := corev1.HostPathDirectory
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: f.Volume,
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: f.Folder(), Type: &kind}}})
		server.VolumeMounts = append(server.VolumeMounts, corev1.VolumeMount{Name: f.Volume, MountPath: f.Folder(), ReadOnly: true})
		changed = true
	}
	if !changed {
		return false, nil
	}
	text, err := yaml.Marshal(pod)
	if err != nil {
		return false, err
	}
	return true, files.Replace(manifest, text)
}

// Remember adds the flags and the folder to kubeadm's configuration of the cluster, which upgrades and joining control planes read.
func (f ServerFile) Remember(ctx context.Context, client kubernetes.Interface) error {
	if err := EditConfig(ctx, client, f.AddTo); err != nil {
		return fmt.Errorf("change kubeadm's configuration of the cluster: %w", err)
	}
	return nil
}

// AddTo adds the flags and the folder to the text of a ClusterConfiguration.
func (f ServerFile) AddTo(text string) (string, error) {
	return EditServer(text, func(server *Server) error {
		err := server.AddFolder(f.Volume, f.Folder())
		for _, flag := range f.Flags {
			err = errors.Join(err, server.AddArgument(flag[0], flag[1]))
		}
		return err
	})
}
