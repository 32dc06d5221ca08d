package sandbox

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// variable is set in the environment of children.
const variable = "SEALIFT_SANDBOX"

// exitCPU is the exit code of a child that took all of its processor time.
const exitCPU = 24

// maxStack bounds one stack of a child. Go's own bound is larger than a task's limit.
const maxStack = 64 << 20

// maxBookkeeping bounds the bytes that Go maps in addition to its heap, such as 1 MiB for each 64 MiB of it. It is less than Go
// reserves at once.
const maxBookkeeping = 32 << 20

// Main serves tasks and exits if this process is a child. Otherwise it returns at once.
func Main(tasks ...Served) {
	if os.Getenv(variable) == "" {
		return
	}
	out := os.Stdout
	os.Stdout = os.Stderr
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	debug.SetMaxStack(maxStack)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // without memory, the kernel kills the child first
	exceeded := make(chan os.Signal, 1)
	signal.Notify(exceeded, syscall.SIGXCPU)
	go func() {
		<-exceeded
		os.Exit(exitCPU)
	}()
	if err := serve(newWire(os.Stdin, out), tasks); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs tasks until the input ends, which is io.EOF.
func serve(w *wire, tasks []Served) error {
	base, err := mapped()
	if err != nil {
		return err
	}
	for {
		request, err := w.receive(math.MaxInt32)
		if err != nil {
			return err
		}
		if err := request.Limits.apply(base); err != nil {
			return fmt.Errorf("set the limits of a child process: %w", err)
		}
		result := w.work(request, tasks)
		if has, err := mapped(); err != nil || has-base > request.Limits.Memory/2*Overhead {
			result.Used = true // mapped memory stays mapped, and the next task would have less
		}
		if err := w.send(result); err != nil {
			return err
		}
	}
}

func (w *wire) work(request frame, tasks []Served) (result frame) {
	defer func() {
		if r := recover(); r != nil {
			result = frame{Err: fmt.Sprintf("panic: %v", r)}
		}
	}()
	for _, t := range tasks {
		if t.title() != request.Task {
			continue
		}
		data, err := t.serve(request.Data, w.ask(request.Limits.Memory))
		switch {
		case err != nil:
			return frame{Err: err.Error()}
		case int64(len(data)) > request.Limits.Result:
			return frame{Limit: request.Limits.result()}
		}
		return frame{Data: data}
	}
	return frame{Err: "the program serves no task " + request.Task}
}

func (w *wire) ask(size int64) Ask {
	return func(question []byte) ([]byte, error) {
		if err := w.send(frame{Ask: true, Data: question}); err != nil {
			return nil, err
		}
		answer, err := w.receive(size)
		if err == nil && answer.Err != "" {
			err = errors.New(answer.Err)
		}
		return answer.Data, err
	}
}

// apply limits this process from now on. The kernel enforces the limits: allocations fail, and SIGXCPU is sent. base is the memory mapped
// at the start, in bytes. Go reserves address space for its heap, 64 MiB at a time, before it uses it, so RLIMIT_AS above the initial size
// bounds the heap. The rest of the first 64 MiB is added. RLIMIT_DATA bounds nothing: the kernel does not count pages that are mapped over
// reserved ones.
func (l Limits) apply(base int64) error {
	debug.SetMemoryLimit(l.Memory * 3 / 4) // of Go's own memory: collect garbage harder before allocations fail
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return err
	}
	cpu := time.Duration(used.Utime.Nano()+used.Stime.Nano()) + l.CPU*slowdown
	return errors.Join(limit(unix.RLIMIT_AS, uint64(base+(l.Memory+maxBookkeeping)*Overhead)), limit(unix.RLIMIT_CPU, uint64(math.Ceil(cpu.Seconds()))))
}

func limit(resource int, value uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return err
	}
	now.Cur = min(value, now.Max)
	return unix.Setrlimit(resource, &now)
}

// mapped returns the size of this process's address space, in bytes: the first field of /proc/PID/statm, proc(5).
func mapped() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	field, _, _ := strings.Cut(string(text), " ")
	pages, err := strconv.ParseInt(field, 10, 64)
	return pages * int64(os.Getpagesize()), err
}
