package restore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/tail"
)

// What the member of etcd is called, and where others would reach it: nowhere.
const (
	sandboxName = "drill"
	sandboxPeer = "unix://peer:1"
)

// sandboxTime is how long etcd or the API server may take to answer, and sandboxPause the time between two checks.
const (
	sandboxTime  = 10 * time.Minute
	sandboxPause = 100 * time.Millisecond
)

// sandbox is the control plane of a drill: etcd at a socket in its folder, and an API server in a separate network.
type sandbox struct {
	dir    string
	from   *snapshot.Content
	output io.Writer
	member member // etcd of the snapshot
	server serverOf
	config *rest.Config

	running []*process
}

// serverOf is the API server of the snapshot: its image, and the arguments without which it may not read what etcd has.
type serverOf struct {
	image     string
	arguments []string
}

func (s *sandbox) file(name string) string { return filepath.Join(s.dir, name) }

// read finds out what ran where the snapshot was saved.
func (s *sandbox) read() (err error) {
	manifest, _ := s.from.File(strings.TrimPrefix(kubeadm.EtcdManifest, "/"))
	if s.member, err = parseMember(manifest); err != nil {
		return err
	}
	text, _ := s.from.File(strings.TrimPrefix(kubeadm.APIServerManifest, "/"))
	pod, err := kubeadm.ParsePod(text)
	if err != nil {
		return fmt.Errorf("%s: %w", kubeadm.APIServerManifest, err)
	}
	s.server = serverOf{pod.Image(), pod.Args().Only(func(name string) bool {
		return slices.Contains([]string{"service-cluster-ip-range", "runtime-config", "feature-gates", "service-account-issuer"}, name)
	})}
	if s.server.image == "" {
		return fmt.Errorf("%s has no image", kubeadm.APIServerManifest)
	}
	return nil
}

// process is a program that runs until it is stopped. It ends with this process, however that ends.
type process struct {
	cmd  *exec.Cmd
	said *tail.Buffer
	done chan struct{}
}

func (s *sandbox) start(program string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), said: &tail.Buffer{}, done: make(chan struct{})}
	p.cmd.Dir = s.dir
	p.cmd.Stdout = io.MultiWriter(s.output, p.said)
	p.cmd.Stderr = p.cmd.Stdout
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	wait, err := child.Start(p.cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(program), err)
	}
	// If memory runs out, the kernel ends the drill, and no cluster on this host.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.cmd.Process.Pid), []byte("1000"), 0)
	go func() {
		_ = wait()
		close(p.done)
	}()
	s.running = append(s.running, p)
	return p, nil
}

// stop ends what runs. Nothing of it is needed any longer.
func (s *sandbox) stop() {
	for _, p := range s.running {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
}

// wait waits until a program is ready.
func (s *sandbox) wait(ctx context.Context, what string, p *process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(sandboxTime))
	defer cancel()
	err := poll.Until(ctx, sandboxPause, nil, func(ctx context.Context) (bool, error) {
		err := ready(ctx)
		select {
		case <-p.done:
			return err == nil, err
		default:
			return err == nil, poll.NotYet(err)
		}
	})
	switch {
	case poll.Ended(err):
		return fmt.Errorf("%s of the drill does not become ready: %w\n%s", what, err, p.said.String())
	case err != nil:
		return fmt.Errorf("%s of the drill ended: %w\n%s", what, err, p.said.String())
	}
	return nil
}

func (s *sandbox) startEtcd(ctx context.Context) error {
	p, err := s.start(s.file("bin/etcd"), "--name="+sandboxName, "--data-dir="+s.file("etcd"), "--log-level=warn", "--unsafe-no-fsync",
		"--listen-client-urls=unix://"+s.file("etcd.sock"), "--advertise-client-urls=unix://etcd:1",
		"--listen-peer-urls="+sandboxPeer, "--initial-advertise-peer-urls="+sandboxPeer, "--initial-cluster="+sandboxName+"="+sandboxPeer)
	if err != nil {
		return err
	}
	return s.wait(ctx, "etcd", p, func(ctx context.Context) error {
		client, err := s.client()
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(ctx, speed.Patience(answerTime))
		defer cancel()
		_, err = client.Get(ctx, cluster.SystemNamespace)
		return err
	})
}

// serverAddress is where the API server listens, in its own network.
const serverAddress = "127.0.0.1:6443"

func (s *sandbox) startServer(ctx context.Context) error {
	token, err := s.writeKeys()
	if err != nil {
		return err
	}
	args := append([]string{"--net", "--", "sh", "-c", `ip link set lo up && exec "$@"`, "sh", s.file("bin/kube-apiserver"),
		"--etcd-servers=unix://" + s.file("etcd.sock"), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=6443",
		"--cert-dir=" + s.file("pki"), "--token-auth-file=" + s.file("pki/tokens"), "--authorization-mode=RBAC", "--allow-privileged=true",
		"--service-account-key-file=" + s.file("pki/sa.pub"), "--service-account-signing-key-file=" + s.file("pki/sa.key"),
		// other programs named in the objects must not be contacted
		"--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook", "--endpoint-reconciler-type=none",
	}, s.server.arguments...)
	if _, keys, ok := s.from.Encryption(); ok {
		if err := files.WriteMode(s.file("pki/encryption.yaml"), 0o600, keys); err != nil {
			return err
		}
		args = append(args, "--encryption-provider-config="+s.file("pki/encryption.yaml"))
	}
	p, err := s.start("unshare", args...)
	if err != nil {
		return err
	}
	s.config = &rest.Config{Host: "https://" + serverAddress, BearerToken: token, QPS: -1, Timeout: time.Minute, Proxy: cluster.NoProxy,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialIn(ctx, p.cmd.Process.Pid, network, address)
		}}
	return s.wait(ctx, "the API server", p, func(ctx context.Context) error {
		ca, err := regularfile.ReadFile(s.file("pki/apiserver.crt"))
		if err != nil {
			return err
		}
		s.config.CAData = ca
		client, err := discovery.NewDiscoveryClientForConfig(s.config)
		if err != nil {
			return err
		}
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// writeKeys writes the API server's files other than etcd's, and returns the token of an administrator that exists only in the
// drill.
func (s *sandbox) writeKeys() (token string, err error) {
	for _, name := range []string{"sa.pub", "sa.key"} {
		text, ok := s.from.File(strings.TrimPrefix(kubeadm.PKI, "/") + "/" + name)
		if !ok {
			return "", fmt.Errorf("the snapshot lacks %s/%s", kubeadm.PKI, name)
		}
		if err := files.WriteMode(s.file("pki/"+name), 0o600, text); err != nil {
			return "", err
		}
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	token = hex.EncodeToString(secret)
	return token, files.WriteMode(s.file("pki/tokens"), 0o600, []byte(token+",drill,drill,\"system:masters\"\n"))
}

// dialIn connects in the network of another process. A socket stays in the network in which it was made.
func dialIn(ctx context.Context, pid int, network, address string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		var f *os.File
		if f, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil {
			return
		}
		defer f.Close()
		if err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter the network of the drill: %w", err)
			return
		}
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
	}()
	<-done
	return conn, err
}

// served lists every kind of object, and returns the revisions of all objects, and the kinds that could not be listed.
func (s *sandbox) served(ctx context.Context) (revisions map[int64]bool, failed []string, err error) {
	found, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return nil, nil, err
	}
	client, err := metadata.NewForConfig(s.config)
	if err != nil {
		return nil, nil, err
	}
	_, lists, err := found.ServerGroupsAndResourcesWithContext(ctx)
	var partly *discovery.ErrGroupDiscoveryFailed // those that other programs serve; etcd has none of their objects
	if err != nil && !errors.As(err, &partly) {
		return nil, nil, fmt.Errorf("ask the API server of the drill what it serves: %w", err)
	}
	revisions, failed = map[int64]bool{}, []string{}
	listed, problems := map[schema.GroupResource]bool{}, map[schema.GroupResource]error{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range list.APIResources {
			kind := version.WithResource(r.Name)
			if listed[kind.GroupResource()] || strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") {
				continue
			}
			if err := eachObject(ctx, client.Resource(kind), revisions); err != nil {
				problems[kind.GroupResource()] = err // another version may do, without a webhook that converts
				continue
			}
			listed[kind.GroupResource()] = true
		}
	}
	for kind, err := range problems {
		if !listed[kind] {
			failed = append(failed, fmt.Sprintf("%s: %v", kind, err))
		}
	}
	return revisions, failed, nil
}

// listPage is how many objects are requested at once.
const listPage = 500

// eachObject notes the revisions of all objects of a kind. The API server reads and decrypts each of them, and sends only its
// metadata.
func eachObject(ctx context.Context, all metadata.ResourceInterface, revisions map[int64]bool) error {
	for next := ""; ; {
		page, err := all.List(ctx, metav1.ListOptions{Limit: listPage, Continue: next})
		if err != nil {
			return err
		}
		for _, one := range page.Items {
			if one.ResourceVersion == "" { // created by the API server on request
				continue
			}
			revision, err := strconv.ParseInt(one.ResourceVersion, 10, 64)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", one.Namespace, one.Name, err)
			}
			revisions[revision] = true
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}
