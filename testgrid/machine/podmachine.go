package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// podMachine is a machine in a pod.
type podMachine struct {
	name    string
	address string
	group   *podGroup
}

func (m *podMachine) Name() string    { return m.name }
func (m *podMachine) Address() string { return m.address }

// wait returns when the machine's systemd is up.
func (m *podMachine) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, podTime)
	defer cancel()
	why := ""
	for {
		pod, err := m.group.client.CoreV1().Pods(m.group.namespace).Get(ctx, m.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("wait for the machine %s: %w %s", m.name, err, why)
		}
		m.address, why = pod.Status.PodIP, podState(pod)
		switch pod.Status.Phase {
		case corev1.PodFailed, corev1.PodSucceeded:
			return fmt.Errorf("the machine %s ended before it was up: %s; does the image %s have systemd?", m.name, why, m.group.image)
		case corev1.PodRunning:
			var state strings.Builder
			_ = m.exec(ctx, Command{Script: "systemctl is-system-running", Stdout: &state}) // fails until systemd is up
			if why = strings.TrimSpace(state.String()); why == "running" || why == "degraded" {
				return nil
			}
		}
		if err := sleep(ctx, podPoll); err != nil {
			return fmt.Errorf("wait for the machine %s: %w: %s", m.name, err, why)
		}
	}
}

// podState says why a pod does not run.
func podState(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil:
			return c.State.Waiting.Reason + " " + c.State.Waiting.Message
		case c.State.Terminated != nil:
			return fmt.Sprintf("%s with exit code %d %s", c.State.Terminated.Reason, c.State.Terminated.ExitCode, c.State.Terminated.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse {
			return c.Reason + " " + c.Message
		}
	}
	return string(pod.Status.Phase)
}

// Run runs a script as a unit of the machine's systemd, which ends all of its processes.
func (m *podMachine) Run(ctx context.Context, c Command) error {
	unit := "sealift-" + strings.ToLower(rand.Text()[:10])
	script := strings.ReplaceAll(c.Script, "$", "$$") // systemd expands variables in command lines
	c.Script = "exec systemd-run --quiet --pipe --wait --collect --unit=" + unit + " --setenv=HOME=/root --working-directory=/root -- bash -c " + Quote(script)
	err := m.exec(ctx, c)
	if ctx.Err() == nil {
		return err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	var exit *ExitError // of a unit that has ended meanwhile
	if err := m.exec(last, Command{Script: "systemctl kill --signal=KILL " + unit}); err != nil && !errors.As(err, &exit) {
		return errors.Join(ctx.Err(), err)
	}
	return ctx.Err()
}

// exec runs a script beside the machine's systemd.
func (m *podMachine) exec(ctx context.Context, c Command) error {
	request := m.group.client.CoreV1().RESTClient().Get().Namespace(m.group.namespace).Resource("pods").Name(m.name).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: "machine", Command: []string{"bash", "-c", c.Script}, Stdin: c.Stdin != nil, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	stream, err := remotecommand.NewWebSocketExecutor(m.group.config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	o := remotecommand.StreamOptions{Stdin: c.Stdin, Stdout: orDiscard(c.Stdout), Stderr: orDiscard(c.Stderr)}
	err = stream.StreamWithContext(ctx, o)
	var exit exec.CodeExitError
	if errors.As(err, &exit) {
		return &ExitError{Code: exit.Code}
	}
	if err != nil {
		return fmt.Errorf("run a script on %s: %w", m.name, err)
	}
	return nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// Remove removes the pod, and the policy of the test with the last one.
func (m *podMachine) Remove(ctx context.Context) error {
	m.group.mu.Lock()
	m.group.left--
	last := m.group.left == 0
	m.group.mu.Unlock()
	if last {
		return m.group.remove(ctx)
	}
	err := m.group.client.CoreV1().Pods(m.group.namespace).Delete(ctx, m.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Keep leaves the pod. Clean removes it.
func (m *podMachine) Keep(context.Context) error { return nil }

func (m *podMachine) Enter() []string {
	line := []string{"kubectl", "exec", "-it", "-n", m.group.namespace, m.name, "--", "bash"}
	if m.group.kubeconfig != "" {
		line = append(line[:1:1], append([]string{"--kubeconfig", m.group.kubeconfig}, line[1:]...)...)
	}
	return line
}

// Egress checks again that nothing gets out. The policy drops packets, and nobody counts them.
func (m *podMachine) Egress(ctx context.Context) ([]Connection, error) {
	if m.group.probe == "" {
		return nil, fmt.Errorf("what leaves %s is not held back", m.name)
	}
	reaches, err := m.group.reaches(ctx, m)
	if reaches {
		err = errors.New("it reaches the API server now, and did not before the test")
	}
	if err != nil {
		return nil, fmt.Errorf("check what %s can reach: %w", m.name, err)
	}
	return nil, nil
}
