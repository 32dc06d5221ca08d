package machine

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"

	"github.com/sealift/sealift/internal/poll"
)

// podMachine is a machine in a pod.
type podMachine struct {
	name    string
	address string
	group   *podGroup
}

func (m *podMachine) Name() string    { return m.name }
func (m *podMachine) Address() string { return m.address }

// wait returns when the machine's systemd is up. Outages of the API server may happen in the meantime.
func (m *podMachine) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, podTime)
	defer cancel()
	err := poll.Until(ctx, podPoll, nil, func(ctx context.Context) (bool, error) {
		up, state, err := m.up(ctx)
		if err == nil && !up {
			return false, poll.NotYet(errors.New(state))
		}
		if err != nil && passes(err) {
			err = poll.NotYet(err)
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait for the machine %s: %w", m.name, err)
	}
	return nil
}

// lookTime is the timeout of one check of a machine, so that a dead connection does not take all of the time.
const lookTime = 30 * time.Second

// up reports whether the machine's systemd is up, or else the state of the pod.
func (m *podMachine) up(ctx context.Context) (up bool, state string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	pod, err := m.group.client.CoreV1().Pods(m.group.namespace).Get(ctx, m.name, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	m.address, state = pod.Status.PodIP, podState(pod)
	switch pod.Status.Phase {
	case corev1.PodFailed, corev1.PodSucceeded:
		return false, "", fmt.Errorf("it ended before it was up: %s; does the image %s have systemd?", state, m.group.image)
	case corev1.PodRunning:
		var said strings.Builder
		_ = m.exec(ctx, Command{Script: "systemctl is-system-running", Stdout: &said}) // fails until systemd is up
		state = strings.TrimSpace(said.String())
		up = state == "running" || state == "degraded"
	}
	return up, state, nil
}

// podState returns why a pod does not run.
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

// fromInput is a script that runs the one in the first line of its input, in base64. What follows is the input of that script.
const fromInput = "IFS= read -r script && script=$(printf %s \"$script\" | base64 -d) || exit\neval \"$script\""

// Run runs a script as a unit of the machine's systemd, which ends all of its processes.
func (m *podMachine) Run(ctx context.Context, c Command) error {
	unit := "sealift-" + strings.ToLower(rand.Text()[:10])
	escaped := strings.ReplaceAll(fromInput, "$", "$$") // systemd expands variables in command lines
	err := m.start(ctx, c, "systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--unit="+unit, "--setenv=HOME=/root", "--working-directory=/root", "--", "bash", "-c", escaped)
	if ctx.Err() == nil {
		return err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	var exit *ExitError // of a unit that has ended by now
	if err := m.exec(last, Command{Script: "systemctl kill --signal=KILL " + unit}); err != nil && !errors.As(err, &exit) {
		return errors.Join(ctx.Err(), err)
	}
	return ctx.Err()
}

// exec runs a script outside the machine's systemd.
func (m *podMachine) exec(ctx context.Context, c Command) error {
	return m.start(ctx, c, "bash", "-c", fromInput)
}

// try runs a short script that may run twice, so it repeats it over an outage of the API server.
func (m *podMachine) try(ctx context.Context, script string) error {
	ctx, cancel := context.WithTimeout(ctx, outageTime)
	defer cancel()
	return poll.Until(ctx, podPoll, nil, func(ctx context.Context) (bool, error) {
		err := m.exec(ctx, Command{Script: script})
		if exit := (*ExitError)(nil); err != nil && !errors.As(err, &exit) {
			err = poll.NotYet(err)
		}
		return err == nil, err
	})
}

// start runs a program that reads the script of c, and then its input. The words of the program are part of a URL, which the audit
// log of the API server keeps; scripts have tokens and passwords.
func (m *podMachine) start(ctx context.Context, c Command, program ...string) error {
	script := c.Script
	var input io.Reader = strings.NewReader("")
	if c.Stdin != nil {
		input = c.Stdin
	} else {
		script = "exec </dev/null\n" + script
	}
	line := base64.StdEncoding.EncodeToString([]byte(script)) + "\n"
	request := m.group.client.CoreV1().RESTClient().Get().Namespace(m.group.namespace).Resource("pods").Name(m.name).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: "machine", Command: program, Stdin: true, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	stream, err := remotecommand.NewWebSocketExecutor(m.group.config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	o := remotecommand.StreamOptions{Stdin: io.MultiReader(strings.NewReader(line), input), Stdout: orDiscard(c.Stdout), Stderr: orDiscard(c.Stderr)}
	err = stream.StreamWithContext(klog.NewContext(ctx, klog.Logger{}), o) // what breaks is in the error
	if exit, ok := errors.AsType[exec.CodeExitError](err); ok {
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
	err := retry(ctx, func(ctx context.Context) error {
		return m.group.client.CoreV1().Pods(m.group.namespace).Delete(ctx, m.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
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
		return nil, fmt.Errorf("the traffic of %s is not blocked", m.name)
	}
	reaches, err := m.group.reaches(ctx, m)
	if reaches {
		err = errors.New("it reaches the API server now, but did not before the test")
	}
	if err != nil {
		return nil, fmt.Errorf("check what %s can reach: %w", m.name, err)
	}
	return nil, nil
}
