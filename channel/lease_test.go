package channel

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/testgrid/controlplane"
)

func TestOneRunAtATime(t *testing.T) {
	c, err := Connect(controlplane.ForTest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	leases := c.full.Resource(leaseResource).Namespace(DefaultNamespace)
	holder := func() *unstructured.Unstructured {
		lease, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	first, err := c.lock(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if holderOf(holder()) == "" || gone(holderOf(holder())) {
		t.Errorf("the holder is %q", holderOf(holder()))
	}
	second, told := make(chan *heldLock, 1), make(chan string, 1)
	go func() {
		held, err := c.lock(t.Context(), func(line string) { told <- line })
		if err != nil {
			t.Error(err)
		}
		second <- held
	}()
	select {
	case <-second:
		t.Fatal("two runs hold the lease")
	case line := <-told:
		if !strings.Contains(line, "another run applies channels") {
			t.Errorf("told %q", line)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("nobody is told of the wait")
	}
	first.release()
	held := <-second
	if held == nil {
		return
	}
	t.Run("a run that was taken over ends", func(t *testing.T) {
		lease := holder()
		lease.Object["spec"].(map[string]any)["holderIdentity"] = "elsewhere"
		if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-held.ctx.Done():
		case <-time.After(2 * time.Minute):
			t.Fatal("it goes on")
		}
		held.release()
		if holderOf(holder()) != "elsewhere" {
			t.Error("its release took the lease from the other")
		}
	})
	t.Run("a silent run of another machine keeps the others out for a while", func(t *testing.T) {
		start := time.Now()
		held, err := c.lock(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		held.release()
		if waited := time.Since(start); waited < leaseDuration {
			t.Errorf("it counted as gone after %s", waited)
		}
	})
	t.Run("whoever waits can be ended", func(t *testing.T) {
		if _, err := c.lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*leasePoll, func() { cancel(errLockLost) })
		if _, err := c.lock(ctx, nil); !errors.Is(err, errLockLost) {
			t.Errorf("%v", err)
		}
	})
}

func TestDeadHoldersAreKnownOnTheirMachine(t *testing.T) {
	if gone(self()) {
		t.Error("this process counts as gone")
	}
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(self(), "_")
	parts[2] = strconv.Itoa(cmd.Process.Pid)
	if !gone(strings.Join(parts, "_")) {
		t.Error("a process that has ended counts as living")
	}
	parts[1] = "another-boot"
	for _, holder := range []string{strings.Join(parts, "_"), "", "controller-1", "a_b_c_d_e"} {
		if gone(holder) {
			t.Errorf("%q counts as gone, which nobody can know", holder)
		}
	}
}
