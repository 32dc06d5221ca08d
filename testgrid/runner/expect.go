package runner

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/testgrid/gridspec"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
)

// expectInterval is the time between two checks of an expectation.
const expectInterval = 2 * time.Second

// expect checks again until the expectation is met, or its time is over.
func (c *cell) expect(ctx context.Context, log io.Writer, e gridspec.Expectation) error {
	deadline := time.Now().Add(e.Within)
	return poll.Until(ctx, expectInterval, nil, func(ctx context.Context) (bool, error) {
		err := c.once(ctx, e)
		if err == nil {
			fmt.Fprintln(log, "true")
			return true, nil
		}
		fmt.Fprintln(log, err)
		if ctx.Err() != nil || !time.Now().Before(deadline) {
			return true, fmt.Errorf("%s: after %s, %w", e.Pos, e.Within, err)
		}
		return false, poll.NotYet(err)
	})
}

// once checks the expectation.
func (c *cell) once(ctx context.Context, e gridspec.Expectation) error {
	switch {
	case e.NodesReady > 0:
		return c.nodesReady(ctx, e.NodesReady)
	case e.PodsRunning != "":
		return c.podsRunning(ctx, e.PodsRunning)
	case e.HTTP != nil:
		return answers(ctx, c.machines[e.HTTP.Node-1], *e.HTTP)
	case e.Command != nil:
		return prints(ctx, c.machines[e.Command.Node-1], *e.Command)
	case e.NoImagePulled:
		return c.noImagePulled(ctx)
	case e.BytesFetched != nil:
		return c.bytesFetched(ctx, *e.BytesFetched)
	}
	return errors.New("no expectation is set")
}

func (c *cell) kubectl(ctx context.Context, args string) (string, error) {
	return machine.Output(ctx, c.machines[0], environment+"kubectl "+args)
}

func (c *cell) nodesReady(ctx context.Context, want int) error {
	text, err := c.kubectl(ctx, "get nodes --no-headers")
	if err != nil {
		return err
	}
	ready, all := 0, 0
	for line := range strings.Lines(text) {
		all++
		if f := strings.Fields(line); len(f) > 1 && f[1] == "Ready" {
			ready++
		}
	}
	if ready != want || all != want {
		return fmt.Errorf("%d of %d nodes are Ready, want %d:\n%s", ready, all, want, text)
	}
	return nil
}

func (c *cell) podsRunning(ctx context.Context, namespace string) error {
	where := "-A"
	if namespace != "all" {
		where = "-n " + shellword.Quote(namespace)
	}
	text, err := c.kubectl(ctx, "get pods "+where+" -o json")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
			Status   struct {
				Phase             string
				ContainerStatuses []struct{ Ready bool }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return fmt.Errorf("read the pods: %w", err)
	}
	var wrong []string
	for _, p := range list.Items {
		ready := 0
		for _, s := range p.Status.ContainerStatuses {
			if s.Ready {
				ready++
			}
		}
		if p.Status.Phase != "Succeeded" && (p.Status.Phase != "Running" || ready < len(p.Status.ContainerStatuses)) {
			wrong = append(wrong, fmt.Sprintf("pod %s/%s is %s, %d of %d containers are ready", p.Metadata.Namespace, p.Metadata.Name, p.Status.Phase, ready, len(p.Status.ContainerStatuses)))
		}
	}
	if len(list.Items) == 0 {
		return errors.New("there are no pods")
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}

// noImagePulled reads the kubelets' events, which Kubernetes keeps for an hour.
func (c *cell) noImagePulled(ctx context.Context) error {
	text, err := c.kubectl(ctx, "get events -A -o json")
	if err != nil {
		return err
	}
	var events struct {
		Items []struct{ Reason, Message string }
	}
	if err := json.Unmarshal([]byte(text), &events); err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	seen := 0
	for _, e := range events.Items {
		if e.Reason != "Pulled" {
			continue
		}
		seen++
		if !strings.Contains(e.Message, "already present on machine") {
			return fmt.Errorf("an image was pulled: %s", e.Message)
		}
	}
	if seen == 0 {
		return errors.New("no event says that an image was present; the events may be too old")
	}
	return nil
}

// receivedBytes returns the bytes that a machine has received over the interface with its address since it booted.
func receivedBytes(ctx context.Context, m machine.Machine) (int64, error) {
	script := "shopt -s nullglob; sum=0; for i in /sys/class/net/*; do case ${i##*/} in lo|veth*|cni*|flannel*|docker*|cali*) continue ;; esac; { n=$(<$i/statistics/rx_bytes); } 2>/dev/null || continue; sum=$((sum + ${n:-0})); done; echo $sum"
	text, err := machine.Output(ctx, m, script)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count the bytes that %s received: %w", m.Name(), err)
	}
	return n, nil
}

func (c *cell) bytesFetched(ctx context.Context, b gridspec.BytesFetched) error {
	now, err := receivedBytes(ctx, c.machines[b.Node-1])
	if err != nil {
		return err
	}
	if got := now - c.facts.Received[b.Node-1]; got > b.Most {
		return fmt.Errorf("node %d received %d bytes, more than %d", b.Node, got, b.Most)
	}
	return nil
}

func prints(ctx context.Context, m machine.Machine, c gridspec.Command) error {
	var out strings.Builder
	err := m.Run(ctx, machine.Command{Script: environment + "exec bash -c " + shellword.Quote(c.Run), Stdout: &out, Stderr: &out})
	code := 0
	if exit, ok := errors.AsType[*machine.ExitError](err); ok {
		code = exit.Code
	} else if err != nil {
		return err
	}
	if code != c.Exit || !strings.Contains(out.String(), c.Contains) {
		return fmt.Errorf("the command exits with %d, want %d and %q in\n%s", code, c.Exit, c.Contains, out.String())
	}
	return nil
}

// requestTimeout is how long a server may take to answer.
const requestTimeout = 10 * time.Second

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 1 << 20

// answers makes a request from a machine, which needs no program for that but bash. Whose certificate a server has is another
// question.
func answers(ctx context.Context, m machine.Machine, want gridspec.HTTP) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	transport := through(ctx, m)
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, want.URL, nil)
	if err != nil {
		return err
	}
	status, body, err := send(transport, request)
	if err != nil {
		return fmt.Errorf("ask %s from %s: %w", want.URL, m.Name(), err)
	}
	if status != want.Status || !strings.Contains(string(body), want.Contains) {
		return fmt.Errorf("%s answers %d, want %d and %q in\n%s", want.URL, status, want.Status, want.Contains, body)
	}
	return nil
}

// through makes requests from a machine, which end with ctx.
func through(ctx context.Context, m machine.Machine) *http.Transport {
	return &http.Transport{
		DialContext:       func(_ context.Context, _, address string) (net.Conn, error) { return tunnel(ctx, m, address) },
		DisableKeepAlives: true,
	}
}

func send(transport *http.Transport, request *http.Request) (status int, body []byte, err error) {
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, body, err
}

// tunnel connects to an address from a machine.
func tunnel(ctx context.Context, m machine.Machine, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	script := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s || exit 1; cat <&3 & cat >&3; wait", shellword.Quote(host), shellword.Quote(port))
	go func() {
		_ = m.Run(ctx, machine.Command{Script: script, Stdin: theirs, Stdout: theirs})
		_ = theirs.Close()
	}()
	return ours, nil
}

// checkTimes warns about parts that took longer than the test allows.
func (c *cell) checkTimes() {
	for _, e := range c.test.Expect {
		if e.Took == nil {
			continue
		}
		var took report.Seconds
		for _, s := range c.result.Steps {
			if s.Name == e.Took.Part || strings.HasPrefix(s.Name, e.Took.Part+" of node") {
				took = max(took, s.Took)
			}
		}
		if float64(took) > e.Took.Most.Seconds() {
			c.result.Warnings = append(c.result.Warnings, fmt.Sprintf("%s: %s took %s, more than %s", e.Pos, e.Took.Part, took, e.Took.Most))
		}
	}
}
