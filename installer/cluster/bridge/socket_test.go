package bridge

import (
	"strconv"
	"testing"
	"time"
)

// TestConnectionWaitsForOwnSocket uses a port whose new connections go to the socket that only directs others, for longer than
// a busy host may keep it.
func TestConnectionWaitsForOwnSocket(t *testing.T) {
	t.Parallel()
	first, _, p := two(t, wildcard, t.Output())
	own, err := listenDeaf(t.Context(), p.bind)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.direct(t.Context(), 2, 2); err != nil { // after those of the two servers
		t.Fatal(err)
	}
	clients := ask(t.Context(), p.address)
	time.Sleep(grace)
	if answers, _ := clients.take(); len(answers) > 0 {
		t.Fatalf("connections go to others: %v", answers)
	}
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.direct(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(pause) {
		answers, failures := clients.take()
		if len(failures) > 0 {
			t.Fatal(failures[0])
		}
		if answers[strconv.Itoa(first.Process.Pid)] > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody answers")
		}
	}
}
