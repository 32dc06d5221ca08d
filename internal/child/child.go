// Package child starts processes that end with this one.
package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start starts cmd. The kernel kills the child with SIGKILL as soon as this process ends, however it ends. The child's own
// children are not killed. Call wait, like cmd.Wait, after all reads from the pipes of cmd. wait may be called more than
// once.
func Start(cmd *exec.Cmd) (wait func() error, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started, waited, ended := make(chan error), make(chan struct{}), make(chan error)
	go func() {
		// The kernel sends the signal when the thread that forked ends (prctl(2)). Keep this thread until the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		<-waited
		ended <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error {
		close(waited)
		return <-ended
	}), nil
}

// Run starts cmd as Start does and waits for it.
func Run(cmd *exec.Cmd) error {
	wait, err := Start(cmd)
	if err != nil {
		return err
	}
	return wait()
}
