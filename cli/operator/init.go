package operator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// RunAsInit runs this program again as a child, and returns the child's exit code. It is for a process with ID 1, as in a
// container: orphans of hooks become its children, and it has to wait for them. The child can wait for its hooks undisturbed.
// Signals go to the child.
func RunAsInit(errOut io.Writer) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Args[0] = os.Args[0] // the program acts by its name
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		fmt.Fprintf(errOut, "sealift-controller: start the operator below process 1: %v\n", err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = child.Process.Signal(s)
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintf(errOut, "sealift-controller: wait for the operator: %v\n", err)
			return 1
		case pid == child.Process.Pid && status.Exited():
			return status.ExitStatus()
		case pid == child.Process.Pid && status.Signaled():
			return 128 + int(status.Signal()) // as shells say it
		}
	}
}
