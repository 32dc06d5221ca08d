package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/sandbox"
)

var (
	echo  = sandbox.Define("echo", func(in string, _ sandbox.Ask) (string, error) { return in, nil })
	fails = sandbox.Define("fails", func(in string, _ sandbox.Ask) (string, error) { return "", errors.New(in) })
	spin  = sandbox.Define("spin", func(in string, _ sandbox.Ask) (string, error) {
		for n := 0; ; n++ {
			if n < 0 {
				return in, nil // a number of 64 bits takes centuries
			}
		}
	})
	sleep = sandbox.Define("sleep", func(d time.Duration, _ sandbox.Ask) (int, error) { time.Sleep(d); return os.Getpid(), nil })
	eat   = sandbox.Define("eat", func(bytes int, _ sandbox.Ask) (int, error) {
		var all [][]byte
		for range bytes >> 20 {
			all = append(all, make([]byte, 1<<20))
		}
		return len(all), nil
	})
	recurse = sandbox.Define("recurse", func(in int, _ sandbox.Ask) (int, error) { return deeper(in), nil })
	panics  = sandbox.Define("panics", func(in string, _ sandbox.Ask) (string, error) { panic(in) })
	exits   = sandbox.Define("exits", func(in string, _ sandbox.Ask) (string, error) {
		fmt.Fprintln(os.Stderr, in)
		os.Exit(7)
		return "", nil
	})
	asks = sandbox.Define("asks", func(in string, ask sandbox.Ask) (string, error) {
		answer, err := ask([]byte(in))
		return string(answer), err
	})
	environment = sandbox.Define("environment", func(string, sandbox.Ask) ([]string, error) { return os.Environ(), nil })
	missing     = sandbox.Define("missing", func(in string, _ sandbox.Ask) (string, error) { return in, nil })
)

// deeper recurses until the stack is full, or n is too large for it to be.
func deeper(n int) int {
	if n == math.MaxInt {
		return 0
	}
	var block [1 << 10]byte
	block[n%len(block)] = 1
	return deeper(n+1) + int(block[0])
}

func TestMain(m *testing.M) {
	sandbox.Main(echo, fails, spin, sleep, eat, recurse, panics, exits, asks, environment)
	os.Exit(m.Run())
}

var limits = sandbox.Limits{CPU: time.Second, Wall: 3 * time.Minute, Memory: 64 << 20, Result: 1 << 20}

func request(change func(*sandbox.Request)) sandbox.Request {
	r := sandbox.Request{Name: "the work", Limits: limits}
	if change != nil {
		change(&r)
	}
	return r
}

func TestTaskReturnsItsResult(t *testing.T) {
	for range 3 {
		if got, err := echo.Run(t.Context(), request(nil), "hello"); got != "hello" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if _, err := fails.Run(t.Context(), request(nil), "no such field"); err == nil || err.Error() != "no such field" {
		t.Errorf("the error of a task is %v", err)
	}
	if _, err := panics.Run(t.Context(), request(nil), "oh"); err == nil || err.Error() != "panic: oh" {
		t.Errorf("a panic is %v", err)
	}
	if _, err := missing.Run(t.Context(), request(nil), "a"); err == nil || !strings.Contains(err.Error(), "serves no task missing") {
		t.Errorf("a task that main does not serve: %v", err)
	}
	if _, err := exits.Run(t.Context(), request(nil), "why"); err == nil || !strings.Contains(err.Error(), "exit status 7: why") || errors.Is(err, sandbox.ErrLimit) {
		t.Errorf("a child that exits: %v", err)
	}
}

func TestChildIsReused(t *testing.T) {
	first, err1 := sleep.Run(t.Context(), request(nil), 0)
	second, err2 := sleep.Run(t.Context(), request(nil), 0)
	if err := errors.Join(err1, err2); err != nil || first != second || first == os.Getpid() {
		t.Errorf("processes %d and %d: %v", first, second, err)
	}
}

func TestChildHasNoSecretsInItsEnvironment(t *testing.T) {
	t.Setenv("SEALIFT_SECRET", "hunter2")
	all, err := environment.Run(t.Context(), request(nil), "")
	if err != nil || strings.Contains(strings.Join(all, "\n"), "hunter2") {
		t.Errorf("%v, %v", all, err)
	}
}

// TestLimitEndsTask names the limit and the work in each error, and bounds the time.
func TestLimitEndsTask(t *testing.T) {
	for name, c := range map[string]struct {
		run  func() error
		want string
	}{
		"processor time": {func() error { _, err := spin.Run(t.Context(), request(nil), "x"); return err }, "1s of processor time"},
		"memory":         {func() error { _, err := eat.Run(t.Context(), request(nil), 300<<20); return err }, "64 MiB of memory"},
		"one large allocation": {func() error {
			_, err := echo.Run(t.Context(), request(nil), strings.Repeat("x", 200<<20))
			return err
		}, "64 MiB of memory"},
		"stack":  {func() error { _, err := recurse.Run(t.Context(), request(nil), 0); return err }, "64 MiB of memory"},
		"result": {func() error { _, err := echo.Run(t.Context(), request(nil), strings.Repeat("x", 2<<20)); return err }, "1024 KiB of result"},
		"clock": {func() error {
			_, err := sleep.Run(t.Context(), request(func(r *sandbox.Request) { r.Limits.Wall = 300 * time.Millisecond }), time.Hour)
			return err
		}, "300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			err := c.run()
			if want := "the work exceeds its limit of " + c.want + "; make it simpler"; !errors.Is(err, sandbox.ErrLimit) || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if took := time.Since(began); took > 4*time.Minute {
				t.Errorf("it took %v", took)
			}
			if got, err := echo.Run(t.Context(), request(nil), "still here"); err != nil || got != "still here" {
				t.Errorf("afterwards: %q, %v", got, err)
			}
		})
	}
}

// TestLimitsApplyToOneTask runs tasks that exceed the limits together, and not one by one.
func TestLimitsApplyToOneTask(t *testing.T) {
	for range 8 {
		if _, err := eat.Run(t.Context(), request(nil), 15<<20); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := eat.Run(t.Context(), request(nil), 180<<20); !errors.Is(err, sandbox.ErrLimit) {
		t.Errorf("a task gets what earlier ones had: %v", err)
	}
}

func TestCallerAnswersQuestions(t *testing.T) {
	r := request(func(r *sandbox.Request) {
		r.Answer = func(_ context.Context, question []byte) ([]byte, error) {
			if string(question) == "bad" {
				return nil, errors.New("no such kind")
			}
			return append(question, '!'), nil
		}
	})
	if got, err := asks.Run(t.Context(), r, "who"); got != "who!" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := asks.Run(t.Context(), r, "bad"); err == nil || err.Error() != "no such kind" {
		t.Errorf("the error of an answer is %v", err)
	}
	if _, err := asks.Run(t.Context(), request(nil), "who"); err == nil {
		t.Error("a question without an answer has no error")
	}
}

func TestCancelledContextEndsTask(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := sleep.Run(ctx, request(nil), time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// TestCancelledContextHarmsNoLaterTask cancels tasks at about the moment of their results. The child must not be given to another task.
func TestCancelledContextHarmsNoLaterTask(t *testing.T) {
	for n := range 400 {
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() {
			time.Sleep(time.Duration(n) * time.Microsecond)
			cancel()
		})
		if _, err := echo.Run(ctx, request(nil), "mine"); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := echo.Run(t.Context(), request(nil), "of another"); err != nil {
			t.Fatalf("after %d µs: %v", n, err)
		}
		ended.Wait()
	}
}

// TestOtherTenantsKeepRendering has one tenant with many slow tasks. Another one does not wait for them.
func TestOtherTenantsKeepRendering(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var slow sync.WaitGroup
	for range 12 {
		slow.Go(func() {
			_, _ = sleep.Run(ctx, request(func(r *sandbox.Request) { r.Tenant = "mallory" }), time.Hour)
		})
	}
	defer slow.Wait()
	defer cancel()
	time.Sleep(500 * time.Millisecond)
	began := time.Now()
	for range 20 {
		if _, err := echo.Run(t.Context(), request(func(r *sandbox.Request) { r.Tenant = "alice" }), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the other tenant waited %v", took)
	}
}

func BenchmarkSmallTask(b *testing.B) {
	for b.Loop() {
		if _, err := echo.Run(b.Context(), request(nil), "hello"); err != nil {
			b.Fatal(err)
		}
	}
}
